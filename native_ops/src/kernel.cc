// The plain loop, compiled for several vector widths; the loader picks the widest that the processor has.
#include "tmflow/kernel.hpp"

// The choice is an ifunc, whose resolver runs before a sanitizer is ready for it.
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define TMFLOW_EVERY_WIDTH __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define TMFLOW_EVERY_WIDTH
#endif

namespace tmflow {
namespace {

template <class T>
[[gnu::always_inline]] inline void loop(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

}  // namespace

TMFLOW_EVERY_WIDTH void subtract_scaled(float* variable, const float* delta, float alpha,
                                        std::size_t n) noexcept {
  loop(variable, delta, alpha, n);
}

TMFLOW_EVERY_WIDTH void subtract_scaled(double* variable, const double* delta, double alpha,
                                        std::size_t n) noexcept {
  loop(variable, delta, alpha, n);
}

}  // namespace tmflow
