// The tracker: staleness in interleavings written out by hand, and sums that hold for any interleaving.
#include "tmflow/measure/tracker.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tmflow {
namespace {

TEST(Tracker, AWorkerByItselfIsNeverStale) {
  Tracker tracker(1, 1);
  for (int step = 0; step < 100; ++step) EXPECT_EQ(tracker.end_step(0, tracker.begin_step()), 0);
  EXPECT_EQ(tracker.begin_step(), 100);
  const auto rows = tracker.staleness(0);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].value, 0);
  EXPECT_EQ(rows[0].count, 100);
}

TEST(Tracker, StalenessIsTheStepsOfOthersInBetween) {
  Tracker tracker(3, 1);
  const auto slow = tracker.begin_step();
  const auto other = tracker.begin_step();
  EXPECT_EQ(tracker.end_step(1, other), 0);
  EXPECT_EQ(tracker.end_step(1, tracker.begin_step()), 0);
  EXPECT_EQ(tracker.end_step(2, tracker.begin_step()), 0);
  EXPECT_EQ(tracker.end_step(0, slow), 3);
}

TEST(Tracker, CountsStayExactBeyondTheDensePart) {
  Histogram histogram;
  for (const std::int64_t value : {5, 255, 256, 5, 1'000'000'000, 256}) histogram.add(value);
  std::vector<std::pair<std::int64_t, std::int64_t>> rows;
  for (const auto& row : histogram.rows()) rows.emplace_back(row.value, row.count);
  EXPECT_EQ(rows, (std::vector<std::pair<std::int64_t, std::int64_t>>{
                      {5, 2}, {255, 1}, {256, 2}, {1'000'000'000, 1}}));
}

TEST(Tracker, ResetForgetsCountsAndKeepsTheVersion) {
  Tracker tracker(2, 1);
  const auto under_way = tracker.begin_step();
  tracker.end_step(1, tracker.begin_step());
  tracker.stats(1, 0).count_update();
  tracker.reset();
  EXPECT_EQ(tracker.stats(1, 0).updates(), 0);
  EXPECT_TRUE(tracker.staleness(1).empty());
  EXPECT_EQ(tracker.begin_step(), 1);
  EXPECT_EQ(tracker.end_step(0, under_way), 1);
}

TEST(Tracker, RefusesWhatItDoesNotKnow) {
  EXPECT_THROW(Tracker(0, 1), std::invalid_argument);
  EXPECT_THROW(Tracker(1, 0), std::invalid_argument);
  Tracker tracker(2, 3);
  EXPECT_THROW(tracker.stats(2, 0), std::invalid_argument);
  EXPECT_THROW(tracker.stats(0, 3), std::invalid_argument);
  EXPECT_THROW(tracker.stats(-1, 0), std::invalid_argument);
  EXPECT_THROW(tracker.end_step(2, 0), std::invalid_argument);
  EXPECT_THROW(tracker.end_step(0, 1), std::invalid_argument);
  EXPECT_THROW(tracker.end_step(0, -1), std::invalid_argument);
}

TEST(Tracker, NothingIsLostBetweenThreads) {
  constexpr int kWorkers = 4, kSteps = 2000;
  Tracker tracker(kWorkers, 2);
  {
    std::vector<std::jthread> threads;
    for (int worker = 0; worker < kWorkers; ++worker) {
      threads.emplace_back([&tracker, worker] {
        for (int step = 0; step < kSteps; ++step) {
          const auto version = tracker.begin_step();
          tracker.stats(worker, 0).count_update();
          tracker.stats(worker, 1).count_update();
          tracker.end_step(worker, version);
        }
      });
    }
  }
  EXPECT_EQ(tracker.begin_step(), kWorkers * kSteps);
  for (int worker = 0; worker < kWorkers; ++worker) {
    std::int64_t steps = 0;
    for (const auto& row : tracker.staleness(worker)) steps += row.count;
    EXPECT_EQ(steps, kSteps);
    EXPECT_EQ(tracker.stats(worker, 0).updates(), kSteps);
    EXPECT_EQ(tracker.stats(worker, 1).updates(), kSteps);
  }
}

}  // namespace
}  // namespace tmflow
