// The audit catches strategies with one seeded bug each, every time, and counts the lost updates exactly.
#include "tmflow/measure/audit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "seeded.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"

namespace tmflow {
namespace {

template <class T>
class Audit : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Audit, Types);

TYPED_TEST(Audit, LockLosesNothing) {
  for (const int threads : {1, 2, 4, 9}) {
    Lock lock;
    const AuditPlan plan{.threads = threads, .updates = 300, .elements = 100};
    const AuditReport report = audit<TypeParam>(lock, plan);
    EXPECT_TRUE(report.clean()) << threads << " threads";
    EXPECT_EQ(report.expected, std::int64_t{threads} * 300 * 100);
    EXPECT_EQ(report.counted, threads * 300);
    EXPECT_GT(report.seconds, 0);
  }
}

TYPED_TEST(Audit, OneThreadNeedsNoLock) {
  NoLock nolock;
  EXPECT_TRUE((audit<TypeParam>(nolock, {.threads = 1, .updates = 5000, .elements = 7}).clean()));
}

TYPED_TEST(Audit, SeveralRoundsAddUp) {
  const int updates = 3 * AuditCode<TypeParam>(64).updates_per_round() + 1;
  seeded::Faulty broken(1, true, seeded::Drop{});  // drops every update
  const AuditReport report = audit<TypeParam>(broken, {.threads = 64, .updates = updates, .elements = 2});
  EXPECT_EQ(report.tally.lost, report.expected);
  EXPECT_EQ(report.lost_fraction(), 1);
}

TYPED_TEST(Audit, CountsDroppedUpdates) {
  seeded::Faulty broken(10, true, seeded::Drop{});
  const AuditReport report = audit<TypeParam>(broken, {.threads = 4, .updates = 100, .elements = 50});
  EXPECT_EQ(report.tally.lost, 40 * 50);
  EXPECT_EQ(report.tally.doubled, 0);
  EXPECT_EQ(report.tally.corrupt, 0);
  EXPECT_DOUBLE_EQ(report.lost_fraction(), 0.1);
}

TYPED_TEST(Audit, CountsADoubledUpdate) {
  seeded::Faulty broken(17, false, seeded::Double{});
  const AuditReport report = audit<TypeParam>(broken, {.threads = 4, .updates = 100, .elements = 50});
  EXPECT_EQ(report.tally.lost, 0);
  EXPECT_EQ(report.tally.doubled, 50);
  EXPECT_EQ(report.tally.corrupt, 0);
}

TYPED_TEST(Audit, CatchesOneElementOnItsNeighbour) {
  seeded::Faulty broken(17, false, seeded::Misplace{.from = 8, .to = 9});
  const AuditReport report = audit<TypeParam>(broken, {.threads = 4, .updates = 100, .elements = 50});
  EXPECT_EQ(report.tally.lost, 1);
  EXPECT_EQ(report.tally.corrupt, 1);
}

TYPED_TEST(Audit, CatchesOneElementOnOneWithTheSameFactor) {
  seeded::Faulty broken(17, false, seeded::Misplace{.from = 8, .to = 11});
  const AuditReport report = audit<TypeParam>(broken, {.threads = 4, .updates = 100, .elements = 50});
  EXPECT_EQ(report.tally.lost, 1);
  EXPECT_EQ(report.tally.doubled, 1);
}

TYPED_TEST(Audit, CodeDistinguishesOneUnitMoreFromOneLess) {
  for (const int threads : {1, 2, 3, 4, 5, 64, AuditPlan::kMaxThreads}) {
    const AuditCode<TypeParam> code(threads);
    const int updates = code.updates_per_round();
    ASSERT_GE(updates, 1) << threads << " threads";
    for (const std::size_t element : {0, 1, 2, 3}) {
      TypeParam sum = 0;
      for (int thread = 0; thread < threads; ++thread)
        sum += static_cast<TypeParam>(updates) * code.unit(thread, element);
      const auto is = [&](TypeParam value, std::int64_t lost, std::int64_t doubled, std::int64_t corrupt) {
        const Tally tally = code.decode(value, element, updates);
        return tally.lost == lost && tally.doubled == doubled && tally.corrupt == corrupt;
      };
      EXPECT_TRUE(is(sum, 0, 0, 0));
      for (const int thread : {0, threads - 1}) {
        EXPECT_TRUE(is(sum - code.unit(thread, element), 1, 0, 0))
            << threads << " threads, element " << element;
        EXPECT_TRUE(is(sum + code.unit(thread, element), 0, 1, 0))
            << threads << " threads, element " << element;
        EXPECT_TRUE(is(sum + code.unit(thread, element + 1), 0, 0, 1))
            << threads << " threads, element " << element;
      }
    }
    EXPECT_EQ(code.decode(-1, 0, updates).corrupt, 1);
    EXPECT_EQ(code.decode(TypeParam{0.5}, 0, updates).corrupt, 1);
    EXPECT_EQ(code.decode(std::numeric_limits<TypeParam>::quiet_NaN(), 0, updates).corrupt, 1);
  }
}

// Lengths that divide the variable, that do not, and that exceed it; one thread has nobody to lose updates
// to.
TYPED_TEST(Audit, ChunksCoverTheVariableAndKeepUpdates) {
  for (const std::string_view name : {"lock", "spin", "nolock"}) {
    for (const std::string_view chunk : {"chunk=1", "chunk=50", "chunk=300", "chunk=1000000000"}) {
      const std::vector<std::string> given{std::string(chunk)};
      const auto strategy = make_strategy<ArrayRegion<TypeParam>>(name, given);
      const int threads = name == "nolock" ? 1 : 4;
      EXPECT_TRUE(audit<TypeParam>(*strategy, {.threads = threads, .updates = 50, .elements = 1000}).clean())
          << name << " " << chunk;
    }
  }
}

// Updates like NoLock, and spoils the gradient afterwards.
struct Spoiling {
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    NoLock().apply(region, update, stats);
    auto* const delta = const_cast<typename R::Value*>(update.delta.data());
    std::fill_n(delta, update.delta.size(), typename R::Value{0});
  }
};

// The sizes are no multiples of the pattern from which a gradient is written.
TYPED_TEST(Audit, AFreshGradientIsWrittenBeforeEveryUpdate) {
  for (const std::int64_t elements : {1, 384, 1001}) {
    AuditPlan plan{.threads = 1, .updates = 50, .elements = elements};
    Spoiling spoiling;
    EXPECT_EQ(audit<TypeParam>(spoiling, plan).tally.lost, 49 * elements);
    plan.fresh_gradient = true;
    EXPECT_TRUE(audit<TypeParam>(spoiling, plan).clean());
  }
}

TEST(AuditPlan, SaysWhatIsAllowed) {
  Lock lock;
  EXPECT_THROW(audit<float>(lock, {.threads = 0, .updates = 1, .elements = 1}), std::invalid_argument);
  EXPECT_THROW(audit<float>(lock, {.threads = 1025, .updates = 1, .elements = 1}), std::invalid_argument);
  EXPECT_THROW(audit<float>(lock, {.threads = 1, .updates = 0, .elements = 1}), std::invalid_argument);
  EXPECT_THROW(audit<float>(lock, {.threads = 1, .updates = 1, .elements = 0}), std::invalid_argument);
  EXPECT_THROW(audit<float>(lock, {.threads = 1, .updates = 1, .elements = 1'000'000'001}),
               std::invalid_argument);
}

// Throws at the n-th update in total.
struct Throwing {
  int n;
  std::atomic<int> count{0};

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    if (++count == n) throw std::runtime_error("on purpose");
    Lock().apply(region, update, stats);
  }
};

TEST(AuditPlan, PassesOnWhatAStrategyThrows) {
  const int rounds = 3 * AuditCode<float>(4).updates_per_round();
  for (const int n : {1, 17, 4 * rounds}) {  // in the first round, and in the last update of the last round
    Throwing broken{.n = n};
    EXPECT_THROW(audit<float>(broken, {.threads = 4, .updates = rounds, .elements = 1}), std::runtime_error);
    EXPECT_GE(broken.count, n);
  }
}

}  // namespace
}  // namespace tmflow
