// htm_if_fits with emulated transactions under every schedule: transactions beside updates and reads under
// the locks of blocks.
#include <array>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>

#include "expected.hpp"
#include "tmflow/htm/emulated/elided.hpp"
#include "weakened.hpp"

namespace tmflow::explore {
namespace {

using htm::emulated::Access;
using htm::emulated::BasicHardwareThread;
using htm::emulated::BasicProcessor;
using htm::emulated::Machine;

using Thread = BasicHardwareThread<Mutex>;

// A line for each element, and room for all of them.
constexpr Machine kMachine{
    .dialect = htm::emulated::Dialect::rtm, .line_bytes = 8, .sets = 1, .ways = 8, .siblings = 1};

// The work of the threads: an update of thread i fits if it touches at most `fits[i]` elements.
struct Fitting {
  std::array<std::size_t, kMostThreads> fits{};
  std::int64_t budget = 1;
  std::size_t block = 1;
};

// htm_if_fits as it is, except for the lock of the processor.
template <class T = Thread, template <class> class A = Atom, class Locks = htm::TouchedLocks<double, A>>
class IfFits {
 public:
  IfFits(const Fitting& fitting, std::size_t elements)
      : fitting_(fitting), stripes_(elements, fitting.block) {
    for (int thread = 0; thread < kThreads; ++thread) hardware_.emplace_back(processor_);
  }

  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const htm::ElidedUpdate<double> whole{update, region.memory(Holding::nothing), 0};
    const bool fits = update.touched() <= fitting_.fits[static_cast<std::size_t>(running_thread())];
    htm::update_whole_or_by_block(
        fits, {.attempts = fitting_.budget, .spending = htm::Spending::study_tsx}, stats,
        [&](htm::Budget budget) {
          return htm::emulated::try_whole(own(), kMachine.line_bytes, whole, Locks(stripes_, update), budget,
                                          stats);
        },
        [&] { htm::emulated::update_by_block(own(), stripes_, whole, stats); });
    require_counted(stats, fits ? fitting_.budget : 0);
  }

  template <Region R>
  void read(R& region, const tmflow::Reading<double>& reading, ThreadStats& stats) {
    htm::emulated::read_by_block(own(), stripes_, region.memory(Holding::nothing), reading, stats);
  }

 private:
  static constexpr int kThreads = 4;

  T& own() { return hardware_[static_cast<std::size_t>(running_thread())]; }

  // Every update ended once, and one that took locks had spent its budget.
  static void require_counted(const ThreadStats& stats, std::int64_t budget) {
    require(stats.commits() + stats.fallbacks() == stats.updates(), "an update did not end once");
    const std::int64_t aborts = attempts(stats) - stats.commits();
    require(aborts >= stats.fallbacks() * budget, "it fell back before its budget was spent");
    require(aborts <= stats.updates() * budget, "it spent more than its budget");
  }

  const Fitting fitting_;
  const BasicStripes<A> stripes_;
  BasicProcessor<Mutex> processor_{kMachine};
  std::deque<T> hardware_;
};

template <class S = IfFits<>>
Report hold(const Plan& plan, const Fitting& fitting, const Limits& limits = {}) {
  return check_consistency(plan, [=] { return std::make_unique<S>(fitting, plan.elements); }, limits);
}

constexpr Plan kTwoOnce{.again = 0, .block = 1};
constexpr Plan kRowOnce{.again = 0, .rows = {0, 0b10}, .block = 1};
constexpr Plan kOneOnce{.again = 0, .elements = 1, .block = 1};
constexpr Plan kTogetherOnce{.again = 0};
constexpr Plan kReadOnce{.updaters = 1, .again = 0, .readers = 1, .readings = 1, .block = 1};
constexpr Fitting kOneFits{.fits = {2, 0, 2}};

TEST(Explored, HtmIfFits) {
  expect_proven("htm_if_fits, 2 updaters x 1 block, once each", hold(kOneOnce, {.fits = {1, 1, 1}}));
  expect_proven("htm_if_fits, 2 updaters x 1 block of 2, once each",
                hold(kTogetherOnce, {.fits = {2, 2, 2}, .block = 2}));
  expect_proven("htm_if_fits, 1 updater, 1 read, 2 blocks, once", hold(kReadOnce, {.fits = {2, 0, 2}}));
}

TEST(Explored, HtmIfFitsOfRows) {
  expect_proven("htm_if_fits, 2 updaters x 2 blocks, once each, one of 1 row that does not fit",
                hold(kRowOnce, kOneFits));
  expect_proven("htm_if_fits, 2 updaters x 2 blocks, once each, one of 1 row that alone fits",
                hold(kRowOnce, {.fits = {1, 1, 2}}));
}

TEST(Explored, HtmIfFitsOfTwoBlocks) {
  expect_proven("htm_if_fits, 2 updaters x 2 blocks, once each, one does not fit", hold(kTwoOnce, kOneFits));
}

TEST(ExploredLate, HtmIfFits) {
  expect_proven("htm_if_fits, 2 updaters x 1 block, once each, one does not fit",
                hold(kOneOnce, {.fits = {1, 0, 1}}, {.late = 1}));
}

// A transaction that subscribes to the lock of the first block only.
struct FirstLock : htm::TouchedLocks<double, Atom> {
  using TouchedLocks::TouchedLocks;

  bool taken() const noexcept {
    bool is_taken = false;
    for_each_word([&](const auto* word) { is_taken = word->load(std::memory_order_acquire); });
    return is_taken;
  }
  static void wait(Turn) noexcept { explore::wait(); }

  template <class Visit>
  void for_each_word(const Visit& visit) const {
    bool is_first = true;
    TouchedLocks::for_each_word([&](const auto* word) {
      if (is_first) visit(word);
      is_first = false;
    });
  }
};

// An owner of a lock whom the processor does not notice.
struct DoesNotNotify : Thread {
  using Thread::Thread;
  void notice(std::initializer_list<Access>) {}
};

TEST(SeededInHtmIfFits, IsFound) {
  expect_found("htm_if_fits: a transaction that subscribes to the first block only",
               hold<IfFits<Thread, Atom, FirstLock>>(kRowOnce, kOneFits), "data race");
  expect_found("htm_if_fits: updates that do not lock the blocks",
               hold<IfFits<Thread, Unchanged>>(kTwoOnce, {}), "data race");
  expect_found("htm_if_fits: an update that does not lock the blocks, beside a transaction",
               hold<IfFits<Thread, Unchanged>>(kTwoOnce, kOneFits), "data race");
  expect_found("htm_if_fits: an owner of a lock that does not notify the processor",
               hold<IfFits<DoesNotNotify>>(kTwoOnce, kOneFits), "data race");
}

}  // namespace
}  // namespace tmflow::explore
