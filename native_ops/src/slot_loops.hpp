// The loops of optimisers with slots. They are compiled once for each build, as kernel_build.cc explains, so
// everything is local.
//
// The arrays do not overlap, which lets a compiler vectorise a loop over four of them.
#pragma once

#include <cstddef>

#include "tmflow/core/slots.hpp"

namespace tmflow {
namespace {

// Builtins, because std::sqrt is an inline function that the builds would share.
inline float root(float x) noexcept { return __builtin_sqrtf(x); }
inline double root(double x) noexcept { return __builtin_sqrt(x); }

template <class T>
void momentum(T* __restrict variable, T* const* slots, const T* __restrict delta, T alpha,
              std::size_t n) noexcept {
  constexpr T kDecay = static_cast<T>(kMomentum);
  T* __restrict const sum = slots[0];
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] = sum[i] * kDecay + delta[i];
    variable[i] -= alpha * sum[i];
  }
}

template <class T>
void adagrad(T* __restrict variable, T* const* slots, const T* __restrict delta, T alpha,
             std::size_t n) noexcept {
  T* __restrict const squares = slots[0];
  for (std::size_t i = 0; i < n; ++i) {
    squares[i] += delta[i] * delta[i];
    variable[i] -= alpha * delta[i] / root(squares[i]);
  }
}

// `alpha` contains the correction of the first steps' bias, as in TensorFlow.
template <class T>
void adam(T* __restrict variable, T* const* slots, const T* __restrict delta, T alpha,
          std::size_t n) noexcept {
  constexpr T kFirst = T{1} - static_cast<T>(kBeta1), kSecond = T{1} - static_cast<T>(kBeta2);
  constexpr T kAdded = static_cast<T>(kEpsilon);
  T* __restrict const mean = slots[0];
  T* __restrict const square = slots[1];
  for (std::size_t i = 0; i < n; ++i) {
    mean[i] += (delta[i] - mean[i]) * kFirst;
    square[i] += (delta[i] * delta[i] - square[i]) * kSecond;
    variable[i] -= mean[i] * alpha / (root(square[i]) + kAdded);
  }
}

}  // namespace
}  // namespace tmflow
