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
              const Hyperparameters<T>& hyper, std::size_t n) noexcept {
  const T kept = hyper.momentum;
  T* __restrict const sum = slots[0];
  for (std::size_t i = 0; i < n; ++i) {
    sum[i] = sum[i] * kept + delta[i];
    variable[i] -= alpha * sum[i];
  }
}

template <class T>
void adagrad(T* __restrict variable, T* const* slots, const T* __restrict delta, T alpha,
             const Hyperparameters<T>& hyper, std::size_t n) noexcept {
  const T epsilon = hyper.epsilon;
  T* __restrict const squares = slots[0];
  for (std::size_t i = 0; i < n; ++i) {
    squares[i] += delta[i] * delta[i];
    variable[i] -= alpha * delta[i] / root(squares[i] + epsilon);
  }
}

// `alpha` contains the correction of the first steps' bias, as in TensorFlow.
template <class T>
void adam(T* __restrict variable, T* const* slots, const T* __restrict delta, T alpha,
          const Hyperparameters<T>& hyper, std::size_t n) noexcept {
  const T first_rate = hyper.first_rate, second_rate = hyper.second_rate, epsilon = hyper.epsilon;
  T* __restrict const mean = slots[0];
  T* __restrict const square = slots[1];
  for (std::size_t i = 0; i < n; ++i) {
    mean[i] += (delta[i] - mean[i]) * first_rate;
    square[i] += (delta[i] * delta[i] - square[i]) * second_rate;
    variable[i] -= mean[i] * alpha / (root(square[i]) + epsilon);
  }
}

}  // namespace
}  // namespace tmflow
