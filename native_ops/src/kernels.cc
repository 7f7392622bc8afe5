// Selects the build of the kernels for this processor.
#include <cassert>

#include "kernel_build.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tmflow {
namespace {

#if defined(__x86_64__)

const KernelBuild& widest() noexcept {
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("fma")) return kernels_O3_avx512;
  return __builtin_cpu_supports("avx2") ? kernels_O3_avx2 : kernels_O3;
}

__attribute__((target("avx"))) void zeroupper() noexcept { _mm256_zeroupper(); }
const bool kHasAvx = __builtin_cpu_supports("avx");

#else

const KernelBuild& widest() noexcept { return kernels_O3; }

#endif

template <class T>
Kernel<T> of(const KernelsOf<T>& kernels, std::string_view name) noexcept {
  if (name == "skip_zero") return kernels.skip_zero;
  return name == "eigen" ? kernels.eigen : kernels.plain;
}

template <class T>
SlotKernel<T> of(const KernelsOf<T>& kernels, Optimiser optimiser) noexcept {
  assert(optimiser != Optimiser::sgd && "it has no slots");
  if (optimiser == Optimiser::momentum) return kernels.momentum;
  return optimiser == Optimiser::adagrad ? kernels.adagrad : kernels.adam;
}

const KernelBuild& build(std::string_view optimisation) noexcept {
  static const KernelBuild& optimised = widest();
  return optimisation == "O0" ? kernels_O0 : optimised;
}

}  // namespace

std::optional<std::string> kernel_why_not(std::string_view kernel) {
  if (kernel != "eigen" || build("O0").of_float.eigen != nullptr) return std::nullopt;
  return "kernel eigen is not in this build, because Eigen was not installed (Debian: libeigen3-dev)";
}

void clear_upper_halves() noexcept {
#if defined(__x86_64__)
  if (kHasAvx) zeroupper();
#endif
}

template <>
Kernel<float> find_kernel(std::string_view kernel, std::string_view optimisation) noexcept {
  return of(build(optimisation).of_float, kernel);
}

template <>
Kernel<double> find_kernel(std::string_view kernel, std::string_view optimisation) noexcept {
  return of(build(optimisation).of_double, kernel);
}

template <>
bool skips_zeros(Kernel<float> kernel) noexcept {
  return kernel == build("O3").of_float.skip_zero || kernel == build("O0").of_float.skip_zero;
}

template <>
bool skips_zeros(Kernel<double> kernel) noexcept {
  return kernel == build("O3").of_double.skip_zero || kernel == build("O0").of_double.skip_zero;
}

template <>
DenseKernel<float> find_dense_kernel(std::string_view optimisation) noexcept {
  return build(optimisation).of_float.dense;
}

template <>
DenseKernel<double> find_dense_kernel(std::string_view optimisation) noexcept {
  return build(optimisation).of_double.dense;
}

template <>
SlotKernel<float> find_slot_kernel(Optimiser optimiser, std::string_view optimisation) noexcept {
  return of(build(optimisation).of_float, optimiser);
}

template <>
SlotKernel<double> find_slot_kernel(Optimiser optimiser, std::string_view optimisation) noexcept {
  return of(build(optimisation).of_double, optimiser);
}

template <>
Copy<float> find_copy() noexcept {
  return build("O3").of_float.copy;
}

template <>
Copy<double> find_copy() noexcept {
  return build("O3").of_double.copy;
}

const LoopsUnderMutex& find_loops_under_mutex() noexcept { return build("O3").loops_under_mutex; }

}  // namespace tmflow
