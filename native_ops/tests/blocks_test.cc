// The strategies that cut a variable into blocks: the blocks, the interplay of threads, and unlucky
// schedules.
#include "tmflow/core/blocks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "block_mutants.hpp"
#include "block_schedules.hpp"
#include "in_step.hpp"
#include "repeated.hpp"
#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/striped.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow {
namespace {

using mutants::CombiningBug;
using mutants::FaultyCombining;
using watched::after_meeting_a_publication;
using watched::Forward;
using watched::HeldUp;
using watched::kBoth;
using watched::reads_whole_blocks;
using watched::Reporting;
using watched::when_marked;

TEST(Blocks, CoverEveryElementOnce) {
  for (const std::size_t elements : {0, 1, 2, 9, 10, 11, 1000}) {
    for (const std::size_t length : {1, 3, 10, 1001}) {
      const Blocks blocks{elements, length};
      std::size_t next = 0;
      for (std::size_t number = 0; number < blocks.count(); ++number) {
        EXPECT_EQ(blocks.first(number), next);
        EXPECT_GT(blocks.size(number), 0u);
        next += blocks.size(number);
      }
      EXPECT_EQ(next, elements) << "length " << length;
    }
  }
}

TEST(Blocks, FitTheVariableIfNoLengthIsGiven) {
  for (const auto& [elements, striped, combining] :
       std::vector<std::tuple<std::size_t, std::size_t, std::size_t>>{
           {0, 2048, 4096}, {7850, 2048, 4096}, {100'352, 24'576, 12'288}, {3'211'264, 32'768, 16'384}}) {
    EXPECT_EQ(kFittedStripe.of(0, elements), striped);
    EXPECT_EQ(Combining::kFitted.of(0, elements), combining);
    EXPECT_EQ(kFittedStripe.of(7, elements), 7u);
  }
}

TEST(Blocks, ThatFitShowInTheConsistencyOfAVariable) {
  const std::vector<std::string> fitted{"block=0"};
  const Listed listed = listed_strategy("striped");
  const Parameters parameters = parameters_of("striped", fitted);
  EXPECT_EQ(listed.updates_over(parameters, 2048), Consistency::tensor);
  EXPECT_EQ(listed.updates_over(parameters, 2049), Consistency::block);
}

TEST(LazyBySize, MakesOneOfEachSizeForAllCallers) {
  struct Made {
    explicit Made(std::atomic<int>* count) { ++*count; }
  };
  for (int round = 0; round < 50; ++round) {
    LazyBySize<Made> made;
    std::atomic<int> count{0};
    std::array<std::array<Made*, 3>, 8> found;
    run_at_once(
        8,
        [&](int thread) {
          for (std::size_t size = 0; size < 3; ++size) {
            found[static_cast<std::size_t>(thread)][size] = &made.of(size + 5, &count);
          }
        },
        [] {});
    EXPECT_GE(count, 3);
    for (const auto& of_thread : found) EXPECT_EQ(of_thread, found[0]);
    EXPECT_EQ(std::set<Made*>(found[0].begin(), found[0].end()).size(), 3u);
  }
}

template <class S>
class BlockStrategy : public ::testing::Test {};
using BlockStrategies = ::testing::Types<Striped, Combining>;
TYPED_TEST_SUITE(BlockStrategy, BlockStrategies);

TYPED_TEST(BlockStrategy, LosesNothing) {
  for (const int threads : {1, 2, 5, 16}) {
    for (const std::int64_t elements : {1, 10, 999, 1001}) {
      for (const std::size_t block : {1, 7, 500, 5000}) {
        TypeParam strategy(block);
        const AuditPlan plan{.threads = threads, .updates = repeated(60), .elements = elements};
        const AuditReport report = audit<float>(strategy, plan);
        EXPECT_TRUE(report.clean()) << threads << " threads, " << elements << " in blocks of " << block;
        EXPECT_EQ(report.counted, threads * plan.updates);
      }
    }
  }
}

TYPED_TEST(BlockStrategy, KeepsThreadsApartInABlock) {
  for (const std::size_t block : {10, 20}) {
    TypeParam strategy(block);
    EXPECT_TRUE((seeded::audit_in_step<double>(strategy, std::chrono::milliseconds(200)).clean()));
  }
}

TYPED_TEST(BlockStrategy, ServesVariablesOfSeveralSizesAtOnce) {
  TypeParam strategy(3);
  std::array<std::vector<float>, 4> variables{std::vector<float>(0), std::vector<float>(4),
                                              std::vector<float>(10), std::vector<float>(100)};
  run_at_once(
      4,
      [&](int thread) {
        std::vector<float>& variable = variables[static_cast<std::size_t>(thread)];
        ArrayRegion<float> region{std::span<float>(variable)};
        const std::vector<float> delta(variable.size(), 1);
        ThreadStats stats;
        for (int i = 0; i < 1000; ++i) strategy.apply(region, {.alpha = -1, .delta = delta}, stats);
      },
      [] {});
  for (const auto& variable : variables) {
    EXPECT_EQ(variable, std::vector<float>(variable.size(), 1000)) << variable.size() << " elements";
  }
}

struct WithoutMemory {
  using Value = float;
  std::mutex& mutex() { return own; }
  std::span<float> memory(Holding) { throw std::runtime_error("no memory"); }
  std::mutex own;
};

TYPED_TEST(BlockStrategy, PassesOnThatThereIsNoMemoryAndGoesOn) {
  TypeParam strategy(2);
  const std::vector<float> delta(5, 1);
  const GradientDescent<float> update{.alpha = -1, .delta = delta};
  ThreadStats stats;
  WithoutMemory none;
  EXPECT_THROW(strategy.apply(none, update, stats), std::runtime_error);
  EXPECT_EQ(stats.updates(), 0);
  std::vector<float> variable(5);
  ArrayRegion<float> region{std::span<float>(variable)};
  strategy.apply(region, update, stats);
  EXPECT_EQ(variable, delta);
}

TYPED_TEST(BlockStrategy, TimesItsLocksIfAsked) {
  TypeParam strategy(10);
  std::vector<float> variable(100'000), delta(variable.size(), 1);
  ArrayRegion<float> region{std::span<float>(variable)};
  ThreadStats untimed, timed;
  timed.time_locks(true);
  for (ThreadStats* stats : {&untimed, &timed}) strategy.apply(region, {.alpha = 1, .delta = delta}, *stats);
  EXPECT_EQ(untimed.held_ns(), 0);
  EXPECT_GT(timed.held_ns(), 0);
  EXPECT_EQ(timed.counted(Contention::taken_blocks, 0), 1);
}

TEST(Combining, HasMoreThreadsThanSeats) {
  for (const std::size_t block : {10, 1000}) {
    Combining strategy(block);
    const AuditPlan plan{.threads = 3 * static_cast<int>(Board<>::kSeats), .updates = 10, .elements = 95};
    const AuditReport report = audit<double>(strategy, plan);
    EXPECT_TRUE(report.clean());
    EXPECT_EQ(report.counted, plan.threads * 10);
  }
}

TEST(Striped, GoesOnToTheNextBlockAndComesBack) {
  HeldUp schedule;
  schedule.awaited = "B's update by B";
  BasicStriped<Forward> strategy(1);
  schedule.run(strategy);
  EXPECT_EQ(schedule.variable, kBoth);
  EXPECT_EQ(schedule.of_b.counted(Contention::taken_blocks, 1), 1);
}

TEST(Combining, DoesTheOthersUpdateToo) {
  HeldUp schedule;
  schedule.awaited = "A's update by B";
  Combining strategy(1);
  schedule.run(strategy);
  EXPECT_TRUE(schedule.events.contains("A's update by B"));
  EXPECT_EQ(schedule.variable, kBoth);
}

TYPED_TEST(BlockStrategy, IsNotDoneBeforeAllBlocksAre) {
  HeldUp schedule;
  schedule.awaited = "end of B";
  schedule.patience = std::chrono::milliseconds(500);  // the update of B does not end before
  TypeParam strategy(1);
  schedule.run(strategy);
  EXPECT_TRUE(schedule.b_is_in_all);
}

TEST(BlockMutants, OfCombiningThatLeavesEarly) {
  HeldUp schedule;
  schedule.awaited = "end of B";
  FaultyCombining<CombiningBug::leaves_early> broken(HeldUp::kElements, 1);
  schedule.run(broken);
  EXPECT_FALSE(schedule.b_is_in_all);
}

TEST(Combining, WaitsForABlockThatOthersHold) {
  BasicCombining<Reporting> strategy(1);
  EXPECT_EQ(after_meeting_a_publication(strategy), kBoth);
}

TEST(BlockMutants, OfCombiningThatKeepsWhatOthersPublished) {
  FaultyCombining<CombiningBug::keeps_others, Reporting> broken(HeldUp::kElements, 1);
  EXPECT_EQ(after_meeting_a_publication(broken), (std::vector<float>{11, 1}));
}

TEST(BlockMutants, OfWhichTheCopyWithoutABugIsNone) {
  FaultyCombining<CombiningBug::none, Reporting> right(HeldUp::kElements, 1);
  EXPECT_EQ(after_meeting_a_publication(right), kBoth);
}

TEST(Combining, MarksABlockAfterItsUpdate) {
  BasicCombining<Reporting> strategy(1);
  EXPECT_EQ(when_marked(strategy), std::vector<float>(4, 1));
}

TEST(BlockMutants, OfCombiningThatMarksFirst) {
  FaultyCombining<CombiningBug::marks_first, Reporting> broken(4, 1);
  EXPECT_EQ(when_marked(broken), std::vector<float>(4, 0));
}

TEST(BlockMutants, OfCombiningThatAppliesItsOwnTwice) {
  FaultyCombining<CombiningBug::own_twice> broken(20, 7);
  const AuditReport report = audit<float>(broken, {.threads = 1, .updates = 50, .elements = 20});
  EXPECT_EQ(report.tally.doubled, report.expected);
}

TEST(BlockMutants, OfStripedWithoutTheShortBlock) {
  mutants::SkipsTheShortBlock broken{7};
  const AuditReport report = audit<float>(broken, {.threads = 4, .updates = 50, .elements = 20});
  EXPECT_EQ(report.tally.lost, 6 * 4 * 50);
}

TEST(BlockMutants, OfStripedThatLetsGoEarly) {
  mutants::BlockReleasedEarly broken(seeded::kInStep.elements, 10);
  const AuditReport report = seeded::audit_in_step<double>(broken);
  EXPECT_EQ(report.lost_fraction(), 0.5);
}

TYPED_TEST(BlockStrategy, ReadsABlockAsAWhole) {
  TypeParam strategy(8);
  EXPECT_TRUE(reads_whole_blocks(strategy, std::chrono::milliseconds(200)));
}

TYPED_TEST(BlockStrategy, WhoseReadWithoutALockIsTorn) {
  mutants::ReadsUnlocked<TypeParam> broken(8);
  EXPECT_FALSE(reads_whole_blocks(broken, std::chrono::seconds(30)));
}

TYPED_TEST(BlockStrategy, ReadsEveryBlock) {
  TypeParam strategy(3);
  std::vector<float> variable(10), copy(10);
  for (std::size_t i = 0; i < variable.size(); ++i) variable[i] = static_cast<float>(i);
  ArrayRegion<float> region{std::span<float>(variable)};
  ThreadStats stats;
  strategy.read(region, {.into = copy}, stats);
  EXPECT_EQ(copy, variable);
  EXPECT_EQ(stats.updates(), 0);
}

}  // namespace
}  // namespace tmflow
