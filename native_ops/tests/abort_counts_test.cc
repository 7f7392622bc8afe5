// The counts of aborts: exact for many statuses and for many threads at once.
#include "tmflow/abort_counts.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tmflow {
namespace {

TEST(AbortCounts, AreExactForMoreStatusesThanHaveAPlace) {
  AbortCounts counts;
  AbortCounts::ByStatus expected;
  for (std::uint64_t status = 0; status < 30; ++status) {
    counts.add(status, static_cast<std::int64_t>(status) + 1);
    counts.add(status, 1);
    expected[status] = static_cast<std::int64_t>(status) + 2;
  }
  counts.add(~std::uint64_t{0}, 5);
  expected[~std::uint64_t{0}] = 5;
  EXPECT_EQ(counts.by_status(), expected);
  counts.clear();
  EXPECT_TRUE(counts.by_status().empty());
  counts.add(7, 1);
  EXPECT_EQ(counts.by_status(), (AbortCounts::ByStatus{{7, 1}}));
}

TEST(AbortCounts, LoseNothingWhenThreadsMeetNewStatusesAtOnce) {
  constexpr int kThreads = 4, kTimes = 2000;
  constexpr std::uint64_t kStatuses = 12;
  AbortCounts counts;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) {
          for (std::uint64_t status = 0; status < kStatuses; ++status) counts.add(status, 1);
        }
      });
    }
  }
  AbortCounts::ByStatus expected;
  for (std::uint64_t status = 0; status < kStatuses; ++status) expected[status] = kThreads * kTimes;
  EXPECT_EQ(counts.by_status(), expected);
}

}  // namespace
}  // namespace tmflow
