// The arithmetic of one build: dense_math_build.cc compiled with one set of flags.
#pragma once

#include "tmflow/train/dense_math.hpp"

namespace tmflow::train {

struct DenseMathBuild {
  DenseMath<float> of_float;
  DenseMath<double> of_double;
};

// cmake/train.cmake names the builds; those for wide vectors are of x86-64 only.
extern const DenseMathBuild dense_math_narrow, dense_math_avx2, dense_math_avx512;

}  // namespace tmflow::train
