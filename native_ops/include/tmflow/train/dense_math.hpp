// The arithmetic of dense layers, in vectors.
#pragma once

#include <concepts>
#include <cstddef>

#include "tmflow/core/kernel.hpp"

namespace tmflow::train {

// All matrices are row-major and without gaps. Nothing allocates. Sums over rows may be taken in any order;
// those over examples are in the order of the examples.
//
// If the processor has fused multiply-add it is used: unlike an update (kernel.hpp), these functions need not
// give the same bits on every machine, and TensorFlow's do not either.
//
// Variables are read with plain loads, which may race with updates: the strategy's consistency of plain reads
// applies.
template <std::floating_point T>
struct DenseMath {
  // output[e, c] = bias[c] + the sum over r of input[e, r] * weights[r, c]; no bias if it is null.
  void (*product)(const T* input, const T* weights, const T* bias, T* output, std::size_t examples,
                  std::size_t rows, std::size_t columns) noexcept;
  // gradient[r, c] = the sum over e of input[e, r] * output[e, c].
  void (*weight_gradient)(const T* input, const T* output, T* gradient, std::size_t examples,
                          std::size_t rows, std::size_t columns) noexcept;
  // The same for one example, from its `n` inputs that are not zero: a weight whose input is zero is not
  // read, so it may be infinite or NaN. The second adds the example's share to the gradient.
  void (*sparse_product)(const NonZero<T>* input, std::size_t n, const T* weights, const T* bias, T* output,
                         std::size_t columns) noexcept;
  void (*add_sparse_weight_gradient)(const NonZero<T>* input, std::size_t n, const T* output, T* gradient,
                                     std::size_t columns) noexcept;
  // The sum over i of a[i] * b[i].
  T (*dot)(const T* a, const T* b, std::size_t n) noexcept;
  // gradient[c] = the sum over e of output[e, c].
  void (*bias_gradient)(const T* output, T* gradient, std::size_t examples, std::size_t columns) noexcept;
  // to[c, r] = from[r, c].
  void (*transpose)(const T* from, T* to, std::size_t rows, std::size_t columns) noexcept;

  // values = max(values, 0), and 1 / (1 + exp(-values)).
  void (*relu)(T* values, std::size_t n) noexcept;
  void (*sigmoid)(T* values, std::size_t n) noexcept;
  // gradient *= the derivative of that, given its values.
  void (*relu_gradient)(const T* values, T* gradient, std::size_t n) noexcept;
  void (*sigmoid_gradient)(const T* values, T* gradient, std::size_t n) noexcept;

  // The mean over the examples of the cross-entropy of softmax(scores) with the labels; `scores` becomes its
  // gradient. Finite for all finite scores.
  T (*softmax_cross_entropy)(T* scores, const T* labels, std::size_t examples, std::size_t columns) noexcept;
};

// For the widest vectors of this processor, chosen at run time.
template <std::floating_point T>
const DenseMath<T>& dense_math() noexcept;

}  // namespace tmflow::train
