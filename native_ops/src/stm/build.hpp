// The loops of one build: build.cc compiled with one set of flags.
#pragma once

#include "tmflow/stm/update.hpp"

namespace tmflow::stm {

struct LoopBuild {
  Loop<float> (*of_float)(const LoopName& name) noexcept;
  Loop<double> (*of_double)(const LoopName& name) noexcept;
};

// cmake/stm.cmake names the builds.
extern const LoopBuild loops_O0, loops_O3;

}  // namespace tmflow::stm
