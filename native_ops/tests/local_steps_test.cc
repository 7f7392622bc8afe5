// local_steps: what a worker reads, when the variable changes, and what a publication adds.
#include "tmflow/strategies/local_steps.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "mutants_ranges.hpp"
#include "tmflow/core/registry.hpp"

namespace tmflow {
namespace {

// A variable to which each update adds 1 in every element, and two workers.
struct TwoWorkers {
  static constexpr std::size_t kElements = 10;

  void update(ThreadStats& worker, int times = 1) {
    for (; times > 0; --times) strategy.apply(region, {.alpha = -1, .delta = ones}, worker);
  }
  float read(ThreadStats& worker) {
    std::vector<float> got(kElements);
    strategy.read(region, {.into = got}, worker);
    EXPECT_EQ(got, std::vector<float>(kElements, got.front()));
    return got.front();
  }

  std::vector<float> values = std::vector<float>(kElements);
  const std::vector<float> ones = std::vector<float>(kElements, 1);
  ArrayRegion<float> region{values};
  std::array<ThreadStats, 3> workers;
  LocalSteps strategy{3};
};

TEST(LocalSteps, TheVariableChangesByEveryFewUpdates) {
  TwoWorkers two;
  two.update(two.workers[0], 2);
  EXPECT_EQ(two.values[0], 0);
  two.update(two.workers[0]);
  EXPECT_EQ(two.values[0], 3);
  two.update(two.workers[1], 3);
  EXPECT_EQ(two.values[0], 6);
  EXPECT_EQ(two.workers[0].updates(), 3);
}

TEST(LocalSteps, AWorkerSeesItsUpdatesAndThoseOfOthersUpToItsPublication) {
  TwoWorkers two;
  two.update(two.workers[0]);
  EXPECT_EQ(two.read(two.workers[0]), 1);
  two.update(two.workers[1], 3);
  EXPECT_EQ(two.read(two.workers[0]), 1);
  two.update(two.workers[0], 2);  // publishes
  EXPECT_EQ(two.read(two.workers[0]), 6);
}

TEST(LocalSteps, AReaderWithoutUpdatesSeesTheVariable) {
  TwoWorkers two;
  two.update(two.workers[0], 4);
  EXPECT_EQ(two.read(two.workers[2]), 3);
}

TEST(LocalSteps, AViewIsWhatIsRead) {
  TwoWorkers two;
  const auto view = two.strategy.view(two.region, two.workers[0]);
  two.update(two.workers[0], 2);
  EXPECT_EQ(view[0], 2);
  two.update(two.workers[1], 3);
  two.update(two.workers[0]);
  EXPECT_EQ(view[0], 6);
  EXPECT_EQ(view.data(), two.strategy.view(two.region, two.workers[0]).data());
}

TEST(LocalSteps, SettlingPublishesTheRestAndLetsEveryWorkerCopyAgain) {
  TwoWorkers two;
  two.update(two.workers[0], 2);
  two.update(two.workers[1], 1);
  two.strategy.settle(two.region);
  EXPECT_EQ(two.values, std::vector<float>(TwoWorkers::kElements, 3));
  EXPECT_EQ(two.read(two.workers[0]), 3);
  two.strategy.settle(two.region);
  EXPECT_EQ(two.values[0], 3);
}

TEST(LocalSteps, ARestartDiscardsWhatIsUnpublished) {
  TwoWorkers two;
  two.update(two.workers[0], 2);
  std::ranges::fill(two.values, 100);
  two.strategy.restart(two.region);
  two.update(two.workers[0], 3);
  EXPECT_EQ(two.values[0], 103);
}

TEST(LocalSteps, NewCountersAreAnotherWorker) {
  TwoWorkers two;
  std::optional<ThreadStats> worker(std::in_place);
  two.update(*worker, 1);
  worker.emplace();  // at the same address
  two.update(two.workers[0], 3);
  EXPECT_EQ(two.read(*worker), 3);
  two.strategy.settle(two.region);
  EXPECT_EQ(two.values[0], 4);
}

TEST(LocalSteps, WithoutARestartAnAssignmentIsLostOrAddedTo) {
  TwoWorkers alone, both;
  alone.update(alone.workers[0], 3);
  std::ranges::fill(alone.values, 100);
  alone.update(alone.workers[0], 3);
  EXPECT_EQ(alone.values[0], 6);
  both.update(both.workers[0], 1);
  both.update(both.workers[1], 3);
  std::ranges::fill(both.values, 100);
  both.update(both.workers[0], 2);
  EXPECT_EQ(both.values[0], 103);
}

TEST(LocalSteps, SettlingLeavesMemoryOfAnotherSizeAsItIs) {
  TwoWorkers two;
  two.update(two.workers[0]);
  std::vector<float> other(3, 5);
  ArrayRegion<float> region{other};
  two.strategy.settle(region);
  EXPECT_EQ(other, std::vector<float>(3, 5));
}

TEST(LocalSteps, ARegionOfAnotherSizeIsRefusedUntilARestart) {
  TwoWorkers two;
  two.update(two.workers[0]);
  std::vector<float> other(3, 5);
  ArrayRegion<float> region{other};
  const std::vector<float> ones(3, 1);
  const GradientDescent<float> update{.alpha = -1, .delta = ones};
  EXPECT_THROW(two.strategy.apply(region, update, two.workers[0]), std::invalid_argument);
  EXPECT_THROW(two.strategy.read(region, {.into = other}, two.workers[0]), std::invalid_argument);
  two.strategy.restart(region);
  two.strategy.apply(region, update, two.workers[0]);
  two.strategy.settle(region);
  EXPECT_EQ(other, std::vector<float>(3, 6));
}

// A sum of thirds rounds differently if differences are added: a worker alone must not notice it. Nor may an
// infinity become a NaN.
TEST(LocalSteps, OneWorkerComputesTheBitsOfThePlainLoop) {
  const std::vector<float> thirds{1.0f / 3, -1.0f / 3, 1e30f, std::numeric_limits<float>::infinity()};
  std::vector<float> values{1, 1e-30f, -1e30f, 0}, plain = values;
  ArrayRegion<float> region{values};
  LocalSteps strategy{4};
  ThreadStats worker;
  const GradientDescent<float> update{.alpha = 0.1f, .delta = thirds};
  for (int i = 0; i < 10; ++i) {
    strategy.apply(region, update, worker);
    update(plain, 0, plain.size());
  }
  strategy.settle(region);
  EXPECT_EQ(values, plain);
}

// A variable of several pieces, and a last one that is shorter.
TEST(LocalSteps, APublicationAddsEveryPiece) {
  std::vector<double> values(5000), ones(5000, 1);
  ArrayRegion<double> region{values};
  LocalSteps strategy{2};
  std::array<ThreadStats, 2> workers;
  for (int turn = 0; turn < 4; ++turn) {
    for (ThreadStats& worker : workers) strategy.apply(region, {.alpha = -1, .delta = ones}, worker);
  }
  EXPECT_EQ(values, std::vector<double>(5000, 8));
}

template <class T>
class LocalStepsMutants : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(LocalStepsMutants, Types);

TYPED_TEST(LocalStepsMutants, ReplacingLosesHalf) {
  BasicLocalSteps<std::atomic, mutants::ReplacesAlways> mutant(1);
  EXPECT_EQ(seeded::audit_in_step<TypeParam>(mutant).lost_fraction(), 0.5);
}

TYPED_TEST(LocalStepsMutants, AreWhatLocalStepsIsNot) {
  for (const int every : {1, 3}) {
    LocalSteps strategy(every);
    EXPECT_TRUE(seeded::audit_in_step<TypeParam>(strategy, std::chrono::milliseconds(50)).clean()) << every;
  }
}

}  // namespace
}  // namespace tmflow
