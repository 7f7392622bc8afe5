// Selects the build of the arithmetic for this processor.
#include "dense_math_build.hpp"

namespace tmflow::train {
namespace {

const DenseMathBuild& widest() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("fma"))
    return dense_math_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return dense_math_avx2;
#endif
  return dense_math_narrow;
}

const DenseMathBuild& build() noexcept {
  static const DenseMathBuild& chosen = widest();
  return chosen;
}

}  // namespace

template <>
const DenseMath<float>& dense_math() noexcept {
  return build().of_float;
}

template <>
const DenseMath<double>& dense_math() noexcept {
  return build().of_double;
}

}  // namespace tmflow::train
