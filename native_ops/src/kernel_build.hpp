// The kernels of one build: kernel_build.cc compiled with one set of flags.
#pragma once

#include "tmflow/core/kernel.hpp"
#include "tmflow/measure/locked_loop.hpp"

namespace tmflow {

template <class T>
struct KernelsOf {
  Kernel<T> plain, eigen, skip_zero;
  DenseKernel<T> dense;
  Copy<T> copy;
  SlotKernel<T> momentum, adagrad, adam;
};

struct KernelBuild {
  KernelsOf<float> of_float;
  KernelsOf<double> of_double;
  LoopsUnderMutex loops_under_mutex;
};

// CMakeLists.txt names the builds; those for wide vectors are of x86-64 only.
extern const KernelBuild kernels_O0, kernels_O3, kernels_O3_avx2, kernels_O3_avx512;

}  // namespace tmflow
