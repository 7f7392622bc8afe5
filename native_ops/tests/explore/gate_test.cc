// The gate of `adaptive` under every schedule: one thread leads the others to another strategy while they
// update.
#include "tmflow/adaptive/gate.hpp"

#include <optional>

#include "expected.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow::explore {
namespace {

// Full fences on both sides, as on a system whose kernel offers none; ../asymmetric_fence_test.cc checks that
// the kernel's fence is as good.
struct Fibers {
  static constexpr std::size_t kPlaces = 3;
  static std::size_t own_place() noexcept { return static_cast<std::size_t>(std::max(running_thread(), 0)); }
  static bool is_shared(std::size_t) noexcept { return false; }
  static void light_fence() noexcept { fence(std::memory_order_seq_cst); }
  static void heavy_fence() noexcept { fence(std::memory_order_seq_cst); }
};

// An entering thread reads the way before the others can see that it is inside.
struct LightlyUnfenced : Fibers {
  static void light_fence() noexcept {}
};

// A leader checks who is inside before the others can see that the gate is closed.
struct HeavilyUnfenced : Fibers {
  static void heavy_fence() noexcept {}
};

// All threads in one place, like threads beyond the last private place.
struct Crowded : Fibers {
  static constexpr std::size_t kPlaces = 1;
  static std::size_t own_place() noexcept { return 0; }
  static bool is_shared(std::size_t) noexcept { return true; }
};

template <class World>
using GateOf = adaptive::Gate<Atom, World>;

// Leads on without checking who is inside.
struct LooksAtNobody {
  explicit LooksAtNobody(int first) : way(first) {}
  struct Passage {
    explicit Passage(LooksAtNobody& gate) noexcept : way(gate.way.load(std::memory_order_acquire)) {}
    const int way;
  };
  void lead(int to) noexcept { way.store(to, std::memory_order_release); }
  Atom<int> way;
};

// Checks who is inside, but lets others in by the old way until the check is done.
struct StaysOpen {
  explicit StaysOpen(int first) : way(first) {}
  struct Passage {
    explicit Passage(StaysOpen& gate) noexcept : inside(gate.inside) {
      inside.fetch_add(1, std::memory_order_acq_rel);
      way = gate.way.load(std::memory_order_acquire);
    }
    ~Passage() { inside.fetch_sub(1, std::memory_order_acq_rel); }
    Atom<int>& inside;
    int way;
  };
  void lead(int to) noexcept {
    while (inside.load(std::memory_order_acquire) != 0) explore::wait();
    way.store(to, std::memory_order_release);
  }
  Atom<int> way, inside{0};
};

// Two strategies with a lock each; the first thread leads to the second strategy after its update.
template <class G, bool kLeavesEarly = false>
class Led {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    {
      std::optional<typename G::Passage> passage(gate_);
      const int way = passage->way;
      if (kLeavesEarly) passage.reset();
      const TimedLockGuard held(locks_[static_cast<std::size_t>(way)], stats);
      update(memory, 0, memory.size());
    }
    stats.count_update();
    if (running_thread() == 0) gate_.lead(1);
  }

 private:
  std::array<BasicSpinLock<Atom>, 2> locks_;
  G gate_{0};
};

constexpr Plan kTwo{.elements = 1, .block = 1};
constexpr Plan kThree{.updaters = 3, .again = 0, .elements = 1, .block = 1};

TEST(Explored, Gate) {
  expect_proven("gate, 2 updaters x 1 element", check_consistency<Led<GateOf<Fibers>>>(kTwo));
  expect_proven("gate, 3 updaters x 1 element, once each", check_consistency<Led<GateOf<Fibers>>>(kThree));
  expect_proven("gate, 2 updaters in one place", check_consistency<Led<GateOf<Crowded>>>(kTwo));
}

TEST(ExploredLate, Gate) {
  expect_proven("gate, 2 updaters x 1 element", check_consistency<Led<GateOf<Fibers>>>(kTwo, {.late = 1}));
}

TEST(SeededInAGate, IsFound) {
  expect_found("gate: a leader that does not wait for the threads inside",
               check_consistency<Led<LooksAtNobody>>(kThree), "data race");
  expect_found("gate: a thread that leaves before its update",
               check_consistency<Led<GateOf<Fibers>, true>>(kThree), "data race");
  expect_found("gate: threads can enter while the leader waits", check_consistency<Led<StaysOpen>>(kThree),
               "data race");
  expect_found("gate: no fence in the entering thread",
               check_consistency<Led<GateOf<LightlyUnfenced>>>(kTwo, {.late = 1}), "data race");
  expect_found("gate: no fence in the leading thread",
               check_consistency<Led<GateOf<HeavilyUnfenced>>>(kTwo, {.late = 1}), "data race");
}

}  // namespace
}  // namespace tmflow::explore
