// The work-stealing threads of oneTBB. This scheduler is built only where CMake finds oneTBB.
#pragma once

#include <span>

#include "../counts.hpp"
#include "../task.hpp"

namespace tmflow::runtime {

struct TbbArena {
  static constexpr const char* kName = "tbb";

  static Counts& counts() {
    static Counts counts;
    return counts;
  }

  static void spawn(const Runner& runner, std::span<const Task> tasks);
};

}  // namespace tmflow::runtime
