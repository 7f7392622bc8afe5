// The lightweight threads of HPX. This scheduler is built only where CMake finds HPX.
#pragma once

#include <span>

#include "../counts.hpp"
#include "../task.hpp"

namespace tmflow::runtime {

// A task runs on the stack of the operating-system thread that HPX chose, so it cannot be suspended: a kernel
// that blocks holds its thread. With a stack for each task, as HPX has by default, a small task takes ten
// times as long, and the kernels of Eigen would need much more than HPX's 64 KB.
struct HpxTasks {
  static constexpr const char* kName = "hpx";

  static Counts& counts() {
    static Counts counts;
    return counts;
  }

  // Starts HPX, unless it runs. Throws std::runtime_error with a sentence if it cannot.
  static void start();

  static void spawn(const Runner& runner, std::span<const Task> tasks);
};

}  // namespace tmflow::runtime
