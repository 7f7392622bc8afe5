// Two updates never have the same number of a worker at the same time.
#include "tmflow/measure/worker_leases.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <set>
#include <thread>
#include <vector>

namespace tmflow {
namespace {

TEST(WorkerLeases, GiveDistinctNumbersAndTakeThemBack) {
  WorkerLeases<> leases(3);
  for (int again = 0; again < 2; ++again) {
    const WorkerLeases<>::Lease first(leases), second(leases), third(leases);
    EXPECT_EQ((std::set{first.worker(), second.worker(), third.worker()}), (std::set{0, 1, 2}));
  }
}

// The counters of a number are plain memory: ThreadSanitizer sees it if two threads have one number, or if
// the next holder does not see what the last one wrote.
TEST(WorkerLeases, OneThreadAtATimeHasANumber) {
  constexpr std::size_t kNumbers = 2, kThreads = 4, kLeases = 5000;
  WorkerLeases<> leases(static_cast<int>(kNumbers));
  std::vector<std::size_t> counts(kNumbers * 16);  // far apart
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kLeases; ++i) {
        const WorkerLeases<>::Lease lease(leases);
        ++counts[static_cast<std::size_t>(lease.worker()) * 16];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counts[0] + counts[16], kThreads * kLeases);
}

}  // namespace
}  // namespace tmflow
