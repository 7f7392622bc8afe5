// A pool of std::thread with one queue, shared by all graphs of the process.
#pragma once

#include <span>

#include "../counts.hpp"
#include "../task.hpp"

namespace tmflow::runtime {

struct StdPool {
  static constexpr const char* kName = "std_pool";

  static Counts& counts() {
    static Counts counts;
    return counts;
  }

  static void spawn(const Runner& runner, std::span<const Task> tasks);
};

}  // namespace tmflow::runtime
