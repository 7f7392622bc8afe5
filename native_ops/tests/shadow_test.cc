// The shadow of a variable agrees with the audit on lost updates, and reports every torn read. The schedules
// are forced, so each number is known beforehand.
#include "tmflow/measure/shadow.hpp"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "in_step.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/strategies/atomic.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow {
namespace {

constexpr std::size_t kThreeBlocks = 2 * Shadow::kBlock + 100;

// Passes the strategy a kernel in which two threads meet, and the shadow of the variable.
template <class S>
struct InStepWithShadow {
  S& strategy;
  Shadow& shadow;

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    strategy.apply(region,
                   {.alpha = update.alpha,
                    .delta = update.delta,
                    .kernel = seeded::read_meet_write<typename R::Value>,
                    .shadow = &shadow,
                    .id = Shadow::new_id()},
                   stats);
  }
};

template <class T>
class Lost : public ::testing::Test {
 protected:
  // The number of losses in the audit; the shadow must agree.
  template <class S>
  static std::int64_t audited(S&& strategy, std::size_t elements, std::chrono::milliseconds patience) {
    seeded::Meeting own(patience);
    seeded::meeting = &own;
    Shadow shadow(elements, seeded::read_meet_write<double>);
    InStepWithShadow<S> forced{strategy, shadow};
    const AuditReport report =
        audit<T>(forced, {.threads = 2, .updates = 20, .elements = static_cast<std::int64_t>(elements)});
    EXPECT_EQ(report.expected - shadow.kept(), report.tally.lost);
    return report.tally.lost;
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Lost, Types);

TYPED_TEST(Lost, HalfOfAllIsCountedAsTheAuditCountsIt) {
  for (const std::size_t elements : {std::size_t{1}, std::size_t{20}, kThreeBlocks}) {
    EXPECT_EQ(this->audited(NoLock{}, elements, std::chrono::seconds(30)), 20 * static_cast<int>(elements));
  }
}

TYPED_TEST(Lost, NothingIsCountedWhereTheOtherThreadIsKeptOut) {
  EXPECT_EQ(this->audited(Lock{}, kThreeBlocks, std::chrono::milliseconds(50)), 0);
}

// A variable, its shadow, and one update and one reading of it.
class Torn : public ::testing::Test {
 protected:
  explicit Torn(std::size_t elements = kThreeBlocks) : shadow(elements, find_kernel<double>()) {}

  void update(std::size_t first, std::size_t count, std::uint64_t id) {
    shadow.around(id, first, count, [](std::size_t, std::size_t) {});
  }
  void update_all() { update(0, kThreeBlocks, Shadow::new_id()); }

  // A reading of everything. `between(begin)` happens before the block at `begin` is copied, and
  // `within(begin)` during the copy.
  template <class Between, class Within>
  WatchedRead read(const Between& between, const Within& within) {
    WatchedRead watch(shadow);
    shadow.for_each_part(0, kThreeBlocks, [&](std::size_t begin, std::size_t n) {
      between(begin);
      watch.around(begin, n, [&](std::size_t, std::size_t) { within(begin); });
    });
    return watch;
  }
  WatchedRead read() {
    return read([](std::size_t) {}, [](std::size_t) {});
  }

  Shadow shadow;
};

TEST_F(Torn, NotWhereNobodyUpdates) {
  EXPECT_FALSE(read().torn());
  for (int i = 0; i < 100; ++i) update_all();
  EXPECT_FALSE(read().torn());
  EXPECT_EQ(shadow.kept(), 100 * static_cast<int>(kThreeBlocks));
  shadow.reset();
  EXPECT_EQ(shadow.kept(), 0);
  EXPECT_FALSE(read().torn());
}

TEST_F(Torn, WhereAnUpdateFallsIntoABlock) {
  const WatchedRead watch = read([](std::size_t) {},
                                 [&](std::size_t begin) {
                                   if (begin == Shadow::kBlock) update_all();
                                 });
  EXPECT_TRUE(watch.torn());
  EXPECT_EQ(watch.torn_parts(), 1);
}

TEST_F(Torn, BetweenBlocksButNotWithinThem) {
  const WatchedRead watch = read(
      [&](std::size_t begin) {
        if (begin == Shadow::kBlock) update_all();
      },
      [](std::size_t) {});
  EXPECT_TRUE(watch.torn());
  EXPECT_EQ(watch.torn_parts(), 0);
}

TEST_F(Torn, WhereAnUpdateIsUnderWay) {
  std::int64_t torn_parts = 0;
  shadow.around(Shadow::new_id(), 0, kThreeBlocks, [&](std::size_t begin, std::size_t) {
    const WatchedRead watch = read();
    EXPECT_TRUE(watch.torn()) << begin;
    torn_parts += watch.torn_parts();
  });
  EXPECT_EQ(torn_parts, 3);
  EXPECT_FALSE(read().torn());
}

TEST_F(Torn, UntilTheLastPartOfAnUpdateIsThere) {
  const std::vector<std::pair<std::size_t, std::size_t>> parts{
      {300, 300}, {900, 1200}, {0, 300}, {2100, 48}, {600, 300}};
  const std::uint64_t id = Shadow::new_id();
  for (const auto& [first, count] : parts) {
    EXPECT_NE(read().torn(), first == parts.front().first) << first;
    update(first, count, id);
  }
  EXPECT_FALSE(read().torn());
}

TEST_F(Torn, WhereABlockLacksAPartThatNoOtherBlockReveals) {
  Shadow small(1000, find_kernel<double>());
  const auto torn = [&] {
    WatchedRead watch(small);
    watch.around(0, 1000, [](std::size_t, std::size_t) {});
    EXPECT_EQ(watch.torn(), watch.torn_parts() == 1);
    return watch.torn();
  };
  const std::uint64_t one = Shadow::new_id(), other = Shadow::new_id();
  small.around(one, 0, 500, [](std::size_t, std::size_t) {});
  EXPECT_TRUE(torn());
  small.around(other, 500, 500, [](std::size_t, std::size_t) {});  // as many elements as one whole update
  EXPECT_TRUE(torn());
  small.around(one, 500, 500, [](std::size_t, std::size_t) {});
  small.around(other, 0, 500, [](std::size_t, std::size_t) {});
  EXPECT_FALSE(torn());
}

TEST_F(Torn, ByWhatWasReadLast) {
  WatchedRead watch(shadow);
  watch.around(0, kThreeBlocks, [&](std::size_t begin, std::size_t) {
    if (begin == 0) update_all();
  });
  EXPECT_TRUE(watch.torn());
  for (const std::size_t begin : {Shadow::kBlock, std::size_t{0}}) {
    watch.around(begin, Shadow::kBlock, [](std::size_t, std::size_t) {});
  }
  EXPECT_FALSE(watch.torn());
}

// No block of the shadow may cross a border of the strategy's locks. If a strategy locks 1500 elements at a
// time, two threads can update 1024 to 1499 and 1500 to 2047 at the same time.
TEST(ShadowOfLockedBlocks, NoneIsUnderTwoLocks) {
  for (const std::size_t guarded : {1, 7, 1000, 1024, 1500, 2048, 100'000}) {
    const Shadow shadow(kThreeBlocks, find_kernel<double>(), guarded);
    std::vector<std::size_t> begins;
    std::size_t covered = 0;
    shadow.for_each_part(0, kThreeBlocks, [&](std::size_t begin, std::size_t n) {
      EXPECT_EQ(begin, covered);
      EXPECT_LE(n, Shadow::kBlock);
      EXPECT_EQ(begin / guarded, (begin + n - 1) / guarded) << guarded << " at " << begin;
      begins.push_back(begin);
      covered += n;
    });
    EXPECT_EQ(covered, kThreeBlocks);
    EXPECT_EQ(begins.size(), shadow.blocks());
  }
}

// Two threads under different locks of a strategy meet within what would otherwise be one block of the
// shadow.
TEST(ShadowOfLockedBlocks, LosesNothingWhereTheElementsDoNot) {
  constexpr std::size_t kElements = 20, kGuarded = 10;
  seeded::Meeting own(std::chrono::seconds(30));
  seeded::meeting = &own;
  Shadow shadow(kElements, seeded::read_meet_write<double>, kGuarded);
  const auto nothing = [](std::size_t, std::size_t) {};
  run_at_once(
      2,
      [&](int thread) {
        const std::size_t first = thread == 0 ? 0 : kGuarded;
        for (int i = 0; i < 20; ++i) shadow.around(Shadow::new_id(), first, kGuarded, nothing);
      },
      [] {});
  EXPECT_EQ(shadow.kept(), 20 * static_cast<int>(kElements));
  WatchedRead watch(shadow);
  watch.around(0, kElements, nothing);
  EXPECT_EQ(watch.torn_parts(), 0);
}

// Atomic accesses, so that the torn read itself is no data race for ThreadSanitizer.
template <class T>
void copy_meet_copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (i == n / 2) {
      seeded::meeting->wait();  // the other thread updates
      seeded::meeting->wait();
    }
    to[i] = std::atomic_ref(const_cast<T&>(from[i])).load(std::memory_order_relaxed);
  }
}

template <class T>
void write_atomically(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const std::atomic_ref element(variable[i]);
    element.store(element.load(std::memory_order_relaxed) - alpha * delta[i], std::memory_order_relaxed);
  }
}

// An update falls into the middle of each of twenty plain reads: each is torn, in its elements and in the
// shadow.
template <class S>
void tear_every_plain_read(S&& strategy) {
  constexpr int kReads = 20;
  std::vector<float> variable(100, 0.0f), ones(variable.size(), 1.0f), copy(variable.size());
  ArrayRegion<float> region(variable);
  Shadow shadow(variable.size(), find_kernel<double>());
  seeded::Meeting own(std::chrono::seconds(30));
  seeded::meeting = &own;
  const std::jthread updating([&] {
    ThreadStats stats;
    for (int i = 0; i < kReads; ++i) {
      own.wait();
      strategy.apply(region,
                     {.alpha = -1,
                      .delta = ones,
                      .kernel = write_atomically<float>,
                      .shadow = &shadow,
                      .id = Shadow::new_id()},
                     stats);
      own.wait();
    }
  });
  int torn = 0, unequal = 0;
  for (int i = 0; i < kReads; ++i) {
    WatchedRead watch(shadow);
    const Reading<float> reading{.into = copy, .copy = copy_meet_copy<float>, .watch = &watch};
    reading(region.memory(Holding::nothing), 0, variable.size());
    torn += watch.torn();
    unequal += copy.front() != copy.back();
  }
  EXPECT_EQ(torn, kReads);
  EXPECT_EQ(unequal, kReads);
}

TEST(TornInTwoThreads, EveryPlainReadThatAnUpdateFallsInto) {
  tear_every_plain_read(NoLock{});
  tear_every_plain_read(Lock{});
}

}  // namespace
}  // namespace tmflow
