// The loops of fused updates: a dense layer's weights are updated from its input and the gradient of its
// output. They are compiled once for each build, as kernel_build.cc explains, so everything is local.
//
// The two-step update writes the whole gradient and reads it again. These loops read the weights and the two
// factors, which stay in the caches. A row whose inputs are zero in all examples (dark pixels, units that
// ReLU and dropout set to zero) is skipped and not even read: its gradient is a sum of zeros times the
// gradient of the output. The effect on the bits:
// - 0 * x is NaN if x is infinite or NaN. So rows are skipped only if the whole output is known to be finite.
//   One check of it serves all calls of an update: for blocks of a few rows it would cost more than it saves.
// - v - 0 is v and v - (-0) is v, with three exceptions: -0 - (-0) is 0, and here stays -0; a signalling NaN
//   would become quiet, and here stays signalling; a denormal would become 0 in a thread that treats
//   denormals as zero, as TensorFlow's do, and here stays unchanged.
// - A denormal input counts as zero exactly in the threads whose products with it are zero.
//
// Every other element equals that of the two-step update, to the bit with one example; with more, the
// products are added in the order of the examples, each rounded.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tmflow/core/kernel.hpp"

namespace tmflow {
namespace {

// Whether the row changes nothing.
template <class T>
bool is_silent(const DenseGradient<T>& gradient, std::size_t rows, std::size_t row) noexcept {
  if (!gradient.output_is_finite) return false;
  const T* input = gradient.input.data() + row;
  for (std::size_t e = 0; e < gradient.examples; ++e, input += rows) {
    if (*input != 0) return false;
  }
  return true;
}

// The factors for one call: their sizes are quotients, which are computed once.
template <class T>
struct Factors {
  const T* input;
  const T* output;
  std::size_t examples, rows, columns;
};

// `n` weights of one row, with one example.
template <class T>
void by_one_example(T* weights, T input, const T* output, T alpha, std::size_t n) noexcept {
  for (std::size_t c = 0; c < n; ++c) weights[c] -= alpha * (input * output[c]);
}

// `kWidth` weights of one row, with any number of examples: so few that their sums stay in registers.
template <std::size_t kWidth, class T>
void by_examples(T* weights, const Factors<T>& factors, std::size_t row, std::size_t column,
                 T alpha) noexcept {
  const T* input = factors.input + row;
  const T* output = factors.output + column;
  T sums[kWidth];
  for (std::size_t c = 0; c < kWidth; ++c) sums[c] = *input * output[c];
  for (std::size_t e = 1; e < factors.examples; ++e) {
    input += factors.rows;
    output += factors.columns;
    for (std::size_t c = 0; c < kWidth; ++c) sums[c] += *input * output[c];
  }
  for (std::size_t c = 0; c < kWidth; ++c) weights[c] -= alpha * sums[c];
}

// `n` weights of one row from `column` on, in pieces of kWidth and a smaller rest.
template <std::size_t kWidth, class T>
void in_pieces(T* weights, const Factors<T>& factors, std::size_t row, std::size_t column, T alpha,
               std::size_t n) noexcept {
  while (n >= kWidth) {
    by_examples<kWidth>(weights, factors, row, column, alpha);
    weights += kWidth;
    column += kWidth;
    n -= kWidth;
  }
  if constexpr (kWidth > 1) {
    if (n > 0) in_pieces<kWidth / 2>(weights, factors, row, column, alpha, n);
  }
}

// The elements [first, first + count), row by row; the first and the last may be parts of rows.
template <class T>
void dense(T* variable, const DenseGradient<T>& gradient, T alpha, std::size_t first,
           std::size_t count) noexcept {
  if (count == 0) return;
  constexpr std::size_t kWidest = 256 / sizeof(T);
  const Factors<T> factors{gradient.input.data(), gradient.output.data(), gradient.examples, gradient.rows(),
                           gradient.columns()};
  std::size_t row = first / factors.columns, column = first % factors.columns;
  T* weights = variable + first;
  while (count > 0) {
    const std::size_t n = std::min(factors.columns - column, count);
    if (!is_silent(gradient, factors.rows, row)) {
      if (factors.examples == 1 && n >= kWidest) {
        by_one_example(weights, factors.input[row], factors.output + column, alpha, n);
      } else {
        in_pieces<kWidest>(weights, factors, row, column, alpha, n);
      }
    }
    weights += n;
    count -= n;
    column = 0;
    ++row;
  }
}

}  // namespace
}  // namespace tmflow
