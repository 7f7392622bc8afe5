// Strategies that hold one mutex, or none: what every schedule does to the explorer's controls.
#include "expected.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/strategies/spin_then_mutex.hpp"
#include "tmflow/sync/own_mutex.hpp"

namespace tmflow::explore {
namespace {

using Spin = OwnMutex<BasicSpinLock<Atom>>;

TEST(Explored, Spin) {
  expect_proven("spin, 2 updaters x 2 elements", hold_to_promise<Spin>({}));
  expect_proven("spin, 3 updaters x 1 element, once each",
                hold_to_promise<Spin>({.updaters = 3, .again = 0, .elements = 1, .block = 1}));
  expect_proven("spin, 1 updater, 1 reader, 2 elements",
                hold_to_promise<Spin>({.updaters = 1, .readers = 1}));
  expect_proven("spin, 2 updaters, 1 reader, 2 elements, once each",
                hold_to_promise<Spin>({.again = 0, .readers = 1}));
}

TEST(ExploredLate, Spin) {
  expect_proven("spin, 2 updaters x 2 elements", hold_to_promise<Spin>({}, {.late = 1}));
}

TEST(Explored, Lock) {
  expect_proven("lock, 2 updaters x 2 elements", hold_to_promise<Lock>({}));
  expect_proven("lock, 1 updater, 1 reader, 2 elements",
                hold_to_promise<Lock>({.updaters = 1, .readers = 1}));
}

// The two tries stand for a thousand: each that fails changes nothing.
TEST(Explored, SpinThenMutex) {
  using TriedTwice = BasicSpinThenMutex<2>;
  expect_proven("spin_then_mutex, 2 updaters x 2 elements", hold_to_promise<TriedTwice>({}));
  expect_proven("spin_then_mutex, 1 updater, 1 reader, 2 elements",
                hold_to_promise<TriedTwice>({.updaters = 1, .readers = 1}));
}

TEST(Explored, NolockLosesUpdates) {
  expect_found("nolock", hold_to_promise<NoLock>({.kernel = kernel<double, true>}), "an update is lost");
  expect_found("nolock, as a race", hold_to_promise<NoLock>({}), "data race");
}

struct UnlocksRelaxed {
  void lock() noexcept {
    while (taken.exchange(true, std::memory_order_acquire)) explore::wait();
  }
  void unlock() noexcept { taken.store(false, std::memory_order_relaxed); }
  Atom<bool> taken{false};
};

struct LocksRelaxed {
  void lock() noexcept {
    while (taken.exchange(true, std::memory_order_relaxed)) explore::wait();
  }
  void unlock() noexcept { taken.store(false, std::memory_order_release); }
  Atom<bool> taken{false};
};

struct LoadsThenStores {
  void lock() noexcept {
    while (taken.load(std::memory_order_acquire)) explore::wait();
    taken.store(true, std::memory_order_relaxed);
  }
  void unlock() noexcept { taken.store(false, std::memory_order_release); }
  Atom<bool> taken{false};
};

struct NeverUnlocks : BasicSpinLock<Atom> {
  void unlock() noexcept {}
};

// Lets go before the last element.
struct LetsGoEarly {
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    {
      const TimedLockGuard held(mutex, stats);
      update(memory, 0, memory.size() - 1);
    }
    update(memory, memory.size() - 1, 1);
    stats.count_update();
  }
  BasicSpinLock<Atom> mutex;
};

TEST(SeededInAMutex, IsFound) {
  expect_found("unlocks relaxed", hold_to_promise<OwnMutex<UnlocksRelaxed>>({}), "data race");
  expect_found("locks relaxed", hold_to_promise<OwnMutex<LocksRelaxed>>({}), "data race");
  expect_found("loads, then stores", hold_to_promise<OwnMutex<LoadsThenStores>>({}), "data race");
  expect_found("never unlocks", hold_to_promise<OwnMutex<NeverUnlocks>>({}), "deadlock");
  expect_found("lets go early", hold_to_promise<LetsGoEarly>({}), "data race");
  expect_found("lets go early, races aside", hold_to_promise<LetsGoEarly>({.kernel = kernel<double, true>}),
               "an update is lost");
}

}  // namespace
}  // namespace tmflow::explore
