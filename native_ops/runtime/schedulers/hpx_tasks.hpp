// The lightweight threads of HPX. This scheduler is built only where CMake finds HPX.
#pragma once

#include <span>

#include "../counts.hpp"
#include "../task.hpp"

namespace tmflow::runtime {

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
