// Transactions over ranges: what others may see of them, what they leave behind, and which one wins.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>
#include <vector>

#include "mutants_ranges.hpp"
#include "stm_tools.hpp"
#include "tmflow/measure/audit.hpp"

namespace tmflow::ranges {
namespace {

using stm::Cause;
using stm::Other;

constexpr std::size_t kBlock = 4, kElements = 20;

template <class Manager>
class Ranges : public ::testing::Test {
 protected:
  template <class Policy = Sound, class Body>
  bool run(ThreadStats& own, const Body& body) {
    return atomically<Manager, Policy>(locks, own, body, []() noexcept {});
  }
  template <class Body>
  bool run(const Body& body) {
    return run(stats, body);
  }

  // Adds 1 to the range.
  bool add(auto& transaction, std::size_t first, std::size_t count) {
    return transaction.modify(memory, first, count, [](std::span<float> range) {
      for (float& element : range) ++element;
    });
  }

  LockTable<std::atomic> locks{kBlock, 8};
  std::vector<float> values = std::vector<float>(kElements);
  const std::span<float> memory{values};
  ThreadStats stats;
};
using Managers = ::testing::Types<stm::Suicide, stm::Delay, stm::Backoff, stm::Aggressive, stm::Timestamp>;
TYPED_TEST_SUITE(Ranges, Managers);

TYPED_TEST(Ranges, ATransactionWritesWhatItHolds) {
  EXPECT_TRUE(this->run([&](auto& transaction) {
    return this->add(transaction, 10, 6) && this->add(transaction, 3, 2) && this->add(transaction, 12, 1);
  }));
  std::vector<float> expected(kElements);
  for (std::size_t i = 10; i < 16; ++i) expected[i] = i == 12 ? 2 : 1;
  expected[3] = expected[4] = 1;
  EXPECT_EQ(this->values, expected);
  EXPECT_EQ(this->stats.commits(), 1);
  EXPECT_EQ(this->stats.counted(Contention::retries, 0), 1);
  EXPECT_TRUE(this->stats.aborts().empty());
}

TYPED_TEST(Ranges, AnAbortLeavesNothing) {
  for (std::size_t i = 0; i < kElements; ++i) this->values[i] = static_cast<float>(i);
  const std::vector<float> before = this->values;
  EXPECT_FALSE(this->run([&](auto& transaction) {
    return this->add(transaction, 17, 3) && this->add(transaction, 2, 9) && this->add(transaction, 5, 9) &&
           transaction.abort();
  }));
  EXPECT_EQ(this->values, before);
  EXPECT_EQ(stm::aborts(this->stats, Cause::requested), 1);
  EXPECT_EQ(this->stats.commits(), 0);
  EXPECT_TRUE(this->run([&](auto& transaction) { return this->add(transaction, 0, kElements); }));
}

TYPED_TEST(Ranges, AnExceptionRollsBackAndPasses) {
  const auto failing = [&](auto& transaction) -> bool {
    EXPECT_TRUE(this->add(transaction, 0, kElements));
    throw std::runtime_error("on purpose");
  };
  EXPECT_THROW(this->run(failing), std::runtime_error);
  EXPECT_EQ(this->values, std::vector<float>(kElements));
  EXPECT_EQ(stm::aborts(this->stats, Cause::exception), 1);
  EXPECT_TRUE(this->run([&](auto& transaction) { return this->add(transaction, 0, kElements); }));
}

// Ranges in any order, from four threads, some of which abort: every sum is exact, and no thread waits for
// ever.
TYPED_TEST(Ranges, InAnyOrderAllEndAndNothingIsLost) {
  constexpr int kThreads = 4, kRuns = 20000;
  std::vector<ThreadStats> stats(kThreads);
  const auto work = [&](int thread) {
    std::uint64_t random = static_cast<std::uint64_t>(thread) + 1;
    const auto below = [&](std::size_t range) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      return static_cast<std::size_t>(random >> 33) % range;
    };
    for (int i = 0; i < kRuns; ++i) {
      const std::size_t a = below(kElements), b = below(kElements);
      const bool wanted = below(4) != 0;
      const bool done = this->run(stats[static_cast<std::size_t>(thread)], [&](auto& transaction) {
        return this->add(transaction, a, kElements - a) && this->add(transaction, b, kElements - b) &&
               this->add(transaction, 0, a) && this->add(transaction, 0, b) &&
               (wanted || transaction.abort());
      });
      EXPECT_EQ(done, wanted);
    }
  };
  run_at_once(kThreads, work, [] {});
  std::int64_t commits = 0;
  for (const ThreadStats& own : stats) commits += own.commits();
  EXPECT_EQ(this->values, std::vector<float>(kElements, static_cast<float>(2 * commits)));
}

// Another transaction adds 1 between the read and the write of this one, if it can.
template <class Policy>
float after_two_at_once() {
  LockTable<std::atomic> locks(kBlock);
  float value = 0;
  ThreadStats stats;
  Other other;
  bool first = true;
  const auto increment = [&](ThreadStats& own, const auto& between) {
    const auto body = [&](auto& transaction) {
      return transaction.modify(std::span(&value, 1), 0, 1, [&](std::span<float> range) {
        const float before = range[0];
        between();
        range[0] = before + 1;
      });
    };
    atomically<stm::Delay, Policy>(locks, own, body, []() noexcept {});
  };
  increment(stats, [&] {
    if (std::exchange(first, false)) other.start([&](ThreadStats& own) { increment(own, [] {}); });
  });
  other.join();
  return value;
}

TEST(RangesTogether, LoseNoUpdate) { EXPECT_EQ(after_two_at_once<Sound>(), 2); }
TEST(RangesTogether, LoseOneWithoutLocks) { EXPECT_EQ(after_two_at_once<mutants::LocksNothing>(), 1); }

template <class Policy>
float after_an_abort() {
  LockTable<std::atomic> locks(kBlock);
  float value = 1;
  ThreadStats stats;
  const auto body = [&](auto& transaction) {
    return transaction.modify(std::span(&value, 1), 0, 1, [](std::span<float> range) { range[0] = 5; }) &&
           transaction.abort();
  };
  EXPECT_FALSE((atomically<stm::Delay, Policy>(locks, stats, body, []() noexcept {})));
  return value;
}

TEST(RangesTogether, RestoreWhatTheyAbort) { EXPECT_EQ(after_an_abort<Sound>(), 1); }
TEST(RangesTogether, LeaveItWithoutALog) { EXPECT_EQ(after_an_abort<mutants::LeavesWrites>(), 5); }

TEST(RangesTogether, WhatIsBeingWrittenIsNotCopied) {
  LockTable<std::atomic> locks(kBlock);
  float value = 0;
  ThreadStats stats;
  const auto body = [&](auto& transaction) {
    const bool modified =
        transaction.modify(std::span(&value, 1), 0, 1, [](std::span<float> range) { range[0] = 5; });
    EXPECT_FALSE(copy_unlocked(locks, 1, [] { ADD_FAILURE() << "copied what may be undone"; }));
    return modified && transaction.abort();
  };
  EXPECT_FALSE(atomically<stm::Delay>(locks, stats, body, []() noexcept {}));
  int copies = 0;
  EXPECT_TRUE(copy_unlocked(locks, 1, [&] { ++copies; }));
  EXPECT_EQ(copies, 1);
}

// A transaction begins after a reader has checked the lock, and gives up before the reader checks it again.
template <class Policy>
float copied_beside_an_abort() {
  LockTable<std::atomic> locks(kBlock);
  float value = 0, copied = -1;
  ThreadStats stats;
  bool first = true;
  const auto copy = [&] {
    const auto body = [&](auto& transaction) {
      EXPECT_TRUE(
          transaction.modify(std::span(&value, 1), 0, 1, [](std::span<float> range) { range[0] = 5; }));
      copied = value;
      return transaction.abort();
    };
    copied = value;
    if (std::exchange(first, false)) {
      EXPECT_FALSE((atomically<stm::Delay, Policy>(locks, stats, body, []() noexcept {})));
    }
  };
  EXPECT_TRUE(copy_unlocked(locks, 1, copy));
  return copied;
}

TEST(RangesTogether, NothingUndoneIsRead) { EXPECT_EQ(copied_beside_an_abort<Sound>(), 0); }
TEST(RangesTogether, ItWouldBeWithTheOldVersion) {
  EXPECT_EQ(copied_beside_an_abort<mutants::KeepsVersion>(), 5);
}

// The transaction that insists gets the lock; the killed one notices and begins again.
TEST(RangesTogether, AKilledTransactionRestarts) {
  LockTable<std::atomic> locks(kBlock);
  float value = 0;
  ThreadStats stats, others;
  std::jthread other;
  const auto add = [&](auto& transaction) {
    return transaction.modify(std::span(&value, 1), 0, 1, [](std::span<float> range) { ++range[0]; });
  };
  bool first = true;
  const auto body = [&](auto& transaction) {
    if (!add(transaction)) return false;
    if (std::exchange(first, false)) {
      other = std::jthread([&] { atomically<stm::Aggressive>(locks, others, add, []() noexcept {}); });
      while (transaction.hold(0, 1)) stm::give_way();
      return false;
    }
    return true;
  };
  EXPECT_TRUE(atomically<stm::Aggressive>(locks, stats, body, []() noexcept {}));
  other.join();
  EXPECT_EQ(value, 2);
  EXPECT_GE(stm::aborts(stats, Cause::killed), 1);
  EXPECT_EQ(stats.commits() + others.commits(), 2);
}

TEST(LockTable, GivesEachLockOfARangeOnce) {
  LockTable<std::atomic> locks(10, 4);
  const auto count = [&](std::size_t first, std::size_t n) {
    int found = 0;
    locks.all_of(first, n, [&](auto& lock) {
      EXPECT_EQ(lock.exchange(1), 0u);
      ++found;
      return true;
    });
    locks.all_of(first, n, [](auto& lock) {
      lock = 0;
      return true;
    });
    return found;
  };
  EXPECT_EQ(count(0, 0), 0);
  EXPECT_EQ(count(0, 10), 1);
  EXPECT_EQ(count(9, 2), 2);
  EXPECT_EQ(count(30, 20), 2);  // the blocks 3 and 4, of which the second has the first lock
  EXPECT_EQ(count(7, 1000), 4);
}

}  // namespace
}  // namespace tmflow::ranges
