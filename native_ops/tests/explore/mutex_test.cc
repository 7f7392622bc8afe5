// Strategies with one mutex or none under every schedule: the controls of the explorer.
#include "expected.hpp"
#include "tmflow/measure/worker_leases.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/strategies/spin_then_mutex.hpp"
#include "tmflow/sync/own_mutex.hpp"
#include "weakened.hpp"

namespace tmflow::explore {
namespace {

using Spin = OwnMutex<BasicSpinLock<Atom>>;

TEST(Explored, Spin) {
  expect_proven("spin, 2 updaters x 2 elements", check_consistency<Spin>({}));
  expect_proven("spin, 3 updaters x 1 element, once each",
                check_consistency<Spin>({.updaters = 3, .again = 0, .elements = 1, .block = 1}));
  expect_proven("spin, 1 updater, 1 reader, 2 elements",
                check_consistency<Spin>({.updaters = 1, .readers = 1}));
  expect_proven("spin, 2 updaters, 1 reader, 2 elements, once each",
                check_consistency<Spin>({.again = 0, .readers = 1}));
}

TEST(Explored, SpinInChunks) {
  const auto chunked = [] { return std::make_unique<Spin>(std::size_t{1}); };
  expect_proven("spin, 2 updaters x 2 chunks", check_consistency({.block = 1}, chunked));
}

TEST(Explored, SpinOfRows) {
  const auto in_rows = [] { return std::make_unique<Spin>(std::size_t{1}); };
  expect_proven("spin, 2 updaters of rows, 1 in common, locked for each row, once each",
                check_consistency({.again = 0, .rows = {0b011, 0b110}, .elements = 3, .block = 1}, in_rows));
  expect_proven("spin, 2 updaters of rows, 1 in common, 1 read, once each",
                check_consistency<Spin>({.again = 0, .readers = 1, .readings = 1, .rows = {0b11, 0b10}}));
}

TEST(ExploredLate, Spin) {
  expect_proven("spin, 2 updaters x 2 elements", check_consistency<Spin>({}, {.late = 1}));
}

TEST(Explored, Lock) {
  expect_proven("lock, 2 updaters x 2 elements", check_consistency<Lock>({}));
  expect_proven("lock, 1 updater, 1 reader, 2 elements",
                check_consistency<Lock>({.updaters = 1, .readers = 1}));
}

// Two tries stand for a thousand, because a failed try changes nothing.
TEST(Explored, SpinThenMutex) {
  using TriedTwice = BasicSpinThenMutex<2>;
  expect_proven("spin_then_mutex, 2 updaters x 2 elements", check_consistency<TriedTwice>({}));
  expect_proven("spin_then_mutex, 1 updater, 1 reader, 2 elements",
                check_consistency<TriedTwice>({.updaters = 1, .readers = 1}));
}

TEST(Explored, NolockLosesUpdates) {
  expect_found("nolock, with races allowed", check_consistency<NoLock>({.kernel = kernel<double, true>}),
               "an update is lost");
  expect_found("nolock, with races reported", check_consistency<NoLock>({}), "data race");
}

// The only number of a worker as a lock: whoever has it may write what belongs to it.
template <template <class> class A>
struct OnlyWorker {
  void lock() noexcept { workers.take(); }
  void unlock() noexcept { workers.give_back(0); }
  WorkerLeases<A> workers{1};
};

TEST(Explored, ALeaseOfTheOnlyWorker) {
  expect_proven("lease, 2 updaters x 2 elements", check_consistency<OwnMutex<OnlyWorker<Atom>>>({}));
}

TEST(SeededInALease, IsFound) {
  expect_found("lease: given back with relaxed order",
               check_consistency<OwnMutex<OnlyWorker<Unreleased>>>({}), "data race");
  expect_found("lease: an exchange split into load and store",
               check_consistency<OwnMutex<OnlyWorker<InTwoSteps>>>({}), "data race");
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

// Releases the lock before the last element.
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
  expect_found("spin: unlocked with relaxed order", check_consistency<OwnMutex<UnlocksRelaxed>>({}),
               "data race");
  expect_found("spin: locked with relaxed order", check_consistency<OwnMutex<LocksRelaxed>>({}), "data race");
  expect_found("spin: an exchange split into load and store",
               check_consistency<OwnMutex<LoadsThenStores>>({}), "data race");
  expect_found("spin: never unlocked", check_consistency<OwnMutex<NeverUnlocks>>({}), "deadlock");
  expect_found("lock: released before the last element", check_consistency<LetsGoEarly>({}), "data race");
  expect_found("lock: released before the last element, with races allowed",
               check_consistency<LetsGoEarly>({.kernel = kernel<double, true>}), "an update is lost");
}

}  // namespace
}  // namespace tmflow::explore
