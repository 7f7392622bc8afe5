// Elision by glibc. The tunables belong to the process, so CMakeLists.txt runs these tests again in one
// process for each of the study's settings; any other process can test only the refusal.
#include "tmflow/strategies/tle.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "in_step.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"

namespace tmflow {
namespace {

TEST(TleRefuses, AProcessWhoseMutexesAreNotElided) {
  if (Tle::why_not()) GTEST_SKIP() << *Tle::why_not();
  if (tle::mutexes_are_elided()) GTEST_SKIP() << "this process's are";
  try {
    make_strategy<ArrayRegion<float>>("tle");
    FAIL() << "nothing is elided here";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("process elides none"), std::string::npos) << error.what();
  }
}

TEST(TleRefuses, AMachineThatCannot) {
  if (!Tle::why_not()) GTEST_SKIP() << "this one can";
  EXPECT_FALSE(tle::mutexes_are_elided());
  EXPECT_THROW(make_strategy<ArrayRegion<float>>("tle"), std::invalid_argument);
}

template <class T>
class TleOf : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Tle::why_not()) GTEST_SKIP() << *Tle::why_not();
    if (!tle::mutexes_are_elided()) GTEST_SKIP() << "this process was not started with glibc's tunables";
    tle = make_strategy<ArrayRegion<T>>("tle");
  }

  // Makes updates of so many elements by one thread; returns their counts.
  ThreadStats& counted(std::size_t elements, int updates) {
    std::vector<T> variable(elements), delta(elements, 1);
    ArrayRegion<T> region(variable);
    for (int u = 0; u < updates; ++u) tle->apply(region, {.alpha = -1, .delta = delta}, stats);
    EXPECT_EQ(variable.back(), updates);
    return stats;
  }

  std::unique_ptr<AnyStrategy<ArrayRegion<T>>> tle;
  ThreadStats stats;
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(TleOf, Types);

TYPED_TEST(TleOf, ShortSectionsAreElidedMostly) {
  const ThreadStats& stats = this->counted(64, 1000);
  EXPECT_GT(stats.commits(), 900);
  EXPECT_EQ(stats.commits() + stats.fallbacks(), 1000);
  EXPECT_EQ(known_attempts(stats), std::nullopt);
  EXPECT_TRUE(stats.aborts().empty());
}

TYPED_TEST(TleOf, SectionsLargerThanTheCacheTakeTheMutex) {
  const ThreadStats& stats = this->counted(1 << 20, 10);
  EXPECT_EQ(stats.commits(), 0);
  EXPECT_EQ(stats.fallbacks(), 10);
}

// tle that releases its mutex, elided or not, before it updates.
class ReleasedEarly {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    mutex_.lock();
    mutex_.unlock();
    update(memory, 0, memory.size());
    stats.count_update();
  }

 private:
  std::mutex mutex_;
};

TYPED_TEST(TleOf, TheAuditCatchesAMutexReleasedEarly) {
  ReleasedEarly broken;
  const AuditReport report = seeded::audit_in_step<TypeParam>(broken);
  EXPECT_EQ(report.tally.lost, seeded::kInStep.updates * seeded::kInStep.elements);
}

TYPED_TEST(TleOf, NothingIsLost) {
  const AuditPlan plans[] = {{1, 200, 7840}, {2, 2000, 1}, {16, 500, 10}, {4, 500, 7840}, {16, 20, 100'003}};
  for (const AuditPlan& plan : plans) {
    const AuditReport report = audit<TypeParam>(*this->tle, plan);
    EXPECT_TRUE(report.clean()) << plan.elements << " elements";
    EXPECT_EQ(report.counted, plan.threads * plan.updates);
  }
}

}  // namespace
}  // namespace tmflow
