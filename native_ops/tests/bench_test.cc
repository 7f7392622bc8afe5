// The reference loops of the benchmark do what they stand for, and their updates and copies are counted.
#include "tmflow/measure/bench.hpp"

#include <gtest/gtest.h>

#include "tmflow/measure/audit.hpp"
#include "tmflow/strategies/lock.hpp"

namespace tmflow {
namespace {

template <class S>
AuditReport stopped_together(S& strategy, AuditPlan plan) {
  plan.stop_together = true;
  return audit<float>(strategy, plan);
}

TEST(StopTogether, ExpectsTheUpdatesMade) {
  for (const int threads : {1, 2, 5}) {
    Lock lock;
    const AuditPlan plan{.threads = threads, .updates = 3000, .elements = 100};
    const AuditReport report = stopped_together(lock, plan);
    EXPECT_TRUE(report.clean()) << threads << " threads";
    EXPECT_GE(report.made, 3000);
    EXPECT_LE(report.made, threads * 3000);
    EXPECT_EQ(report.counted, report.made);
    EXPECT_EQ(report.expected, report.made * 100);
    EXPECT_GT(report.seconds, 0);
  }
}

TEST(StopTogether, SeveralRoundsAddUp) {
  const int updates = 2 * AuditCode<float>(AuditPlan::kMaxThreads / 8).updates_per_round() + 1;
  Lock lock;
  const AuditReport report =
      stopped_together(lock, {.threads = AuditPlan::kMaxThreads / 8, .updates = updates, .elements = 1});
  EXPECT_TRUE(report.clean());
  EXPECT_GE(report.made, updates);
}

// The updates of all threads are expected in the sums; if they are missing, they count as lost.
TEST(StopTogether, CountsLosses) {
  struct NeverUpdates {
    void apply(ArrayRegion<float>&, const GradientDescent<float>&, ThreadStats&) {}
  } broken;
  const AuditReport report = stopped_together(broken, {.threads = 3, .updates = 500, .elements = 7});
  EXPECT_EQ(report.tally.lost, report.made * 7);
  EXPECT_EQ(report.lost_fraction(), 1);
  EXPECT_EQ(report.counted, 0);
}

// Only gradients are written: every update is lost, and none is counted.
TEST(GradientWriting, UpdatesNothing) {
  bench::NoUpdate none;
  const AuditReport report =
      stopped_together(none, {.threads = 2, .updates = 300, .elements = 1000, .fresh_gradient = true});
  EXPECT_EQ(report.tally.lost, report.made * 1000);
  EXPECT_EQ(report.counted, 0);
}

// Calls `test` for the loop under each of the mutexes.
template <class Test>
void for_each_mutex_loop(const Test& test) {
  const LoopsUnderMutex& loops = find_loops_under_mutex();
  bench::MutexLoop<pthread_mutex_t> pthread(loops.pthread);
  bench::MutexLoop<SpinLock> spin(loops.spin);
  bench::MutexLoop<TicketLock> ticket(loops.ticket);
  bench::MutexLoop<McsLock> mcs(loops.mcs);
  test("pthread", pthread), test("spin", spin), test("ticket", ticket), test("mcs", mcs);
}

TEST(MutexLoop, LosesNothing) {
  for (const std::int64_t elements : {1, 17, 10'000}) {
    for_each_mutex_loop([&](const char* name, auto& loop) {
      const AuditReport report = stopped_together(loop, {.threads = 4, .updates = 500, .elements = elements});
      EXPECT_TRUE(report.clean()) << name << ", " << elements << " elements";
      EXPECT_EQ(report.counted, report.made) << name;
    });
  }
}

TEST(MutexLoop, ComputesWhatLockDoes) {
  std::vector<float> delta(1003), by_lock(1003, 1);
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<float>(i) / 3;
  const GradientDescent<float> update{.alpha = 0.1f, .delta = delta};
  ThreadStats stats;
  ArrayRegion<float> locks(by_lock);
  Lock().apply(locks, update, stats);
  for_each_mutex_loop([&](const char* name, auto& loop) {
    std::vector<float> by_loop(1003, 1);
    ArrayRegion<float> loops(by_loop);
    loop.apply(loops, update, stats);
    EXPECT_EQ(by_loop, by_lock) << name;
  });
}

TEST(AlwaysAborts, SpendsItsBudgetAndTakesTheMutex) {
  for (const std::int64_t budget : {0, 5}) {
    bench::AlwaysAborts elision(budget);
    const AuditReport report = stopped_together(elision, {.threads = 4, .updates = 500, .elements = 100});
    EXPECT_TRUE(report.clean());
    EXPECT_EQ(report.commits, 0);
    EXPECT_EQ(report.fallbacks, report.made);
    EXPECT_EQ(report.aborts.size(), budget > 0 ? 1 : 0);
    for (const auto& [status, count] : report.aborts) EXPECT_EQ(count, budget * report.made);
  }
}

TEST(Copy, MovesAsManyBytesAsAnUpdate) {
  // An update of floats reads two and writes one; the copy reads and writes as many bytes in all.
  EXPECT_EQ(2 * bench::copied_bytes(10), 3 * 10 * sizeof(float));
}

TEST(Copy, ArrivesAndIsCounted) {
  for (const int threads : {1, 3}) {
    const bench::CopyReport report =
        bench::copy_at_once({.threads = threads, .copies = 1000, .elements = 1001});
    EXPECT_TRUE(report.arrived);
    EXPECT_GE(report.made, 1000);
    EXPECT_LE(report.made, threads * 1000);
    EXPECT_GT(report.seconds, 0);
  }
}

// Ten times as many copies take ten times as long, because none is left out; the test accepts half of that.
// Both are measured in turn until this holds, because another process may slow down all the short ones. A
// copy that is left out is left out each time.
TEST(Copy, TakesItsTime) {
  const auto seconds = [](int copies) {
    return bench::copy_at_once({.threads = 1, .copies = copies, .elements = 100'000}).seconds;
  };
  double few = seconds(20);
  double many = seconds(200);
  for (int turn = 0; turn < 30 && many <= 5 * few; ++turn) {
    few = std::min(few, seconds(20));
    many = std::min(many, seconds(200));
  }
  EXPECT_GT(many, 5 * few);
}

}  // namespace
}  // namespace tmflow
