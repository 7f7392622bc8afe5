// TensorFlow's own threads: those that the session or the function gives to the executor.
#pragma once

#include <span>

#include "../counts.hpp"
#include "../task.hpp"

namespace tmflow::runtime {

struct TfPool {
  static constexpr const char* kName = "tf_pool";

  static Counts& counts() {
    static Counts counts;
    return counts;
  }

  static void spawn(const Runner& runner, std::span<const Task> tasks) {
    for (Task task : tasks) runner([task]() mutable { task(); });
  }
};

}  // namespace tmflow::runtime
