// The update itself: variable[i] -= alpha * delta[i].
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>

namespace tmflow {

// The plain loop over `n` elements, in order of address; every element is read once and written once.
// The product is rounded before the difference is (no fused multiply-add), so every machine computes the same
// bits. Compiled apart, once for each vector width, and chosen when the library is loaded (src/kernel.cc).
void subtract_scaled(float* variable, const float* delta, float alpha, std::size_t n) noexcept;
void subtract_scaled(double* variable, const double* delta, double alpha, std::size_t n) noexcept;

// One step of gradient descent on one variable.
template <std::floating_point T>
struct GradientDescent {
  T alpha;
  std::span<const T> delta;

  // Update the elements [first, first + count) of a variable of delta.size() elements.
  void operator()(std::span<T> variable, std::size_t first, std::size_t count) const noexcept {
    assert(variable.size() == delta.size() && first + count <= delta.size());
    subtract_scaled(variable.data() + first, delta.data() + first, alpha, count);
  }
};

}  // namespace tmflow
