// What the executors of one scheduler have done since the library was loaded.
#pragma once

#include <atomic>
#include <cstdint>

namespace tmflow::runtime {

struct alignas(64) Counts {
  std::atomic<int64_t> executors{0};  // one for each graph, or part of a graph
  std::atomic<int64_t> steps{0};      // runs of these
  std::atomic<int64_t> nodes{0};      // nodes that were run
  std::atomic<int64_t> tasks{0};      // tasks that were given to the scheduler

  static void add(std::atomic<int64_t>& count, int64_t by) { count.fetch_add(by, std::memory_order_relaxed); }
};

}  // namespace tmflow::runtime
