// The loops of fused updates: a dense layer's weights are updated from its input and the gradient of its
// output. Compiled once for each build, as kernel_build.cc says, so all of it is local.
//
// Where the two-step update writes the whole gradient and reads it again, these read the two factors, which
// stay in the caches, and the weights. A row whose inputs are zero in all examples (dark pixels, what ReLU
// and dropout silence) is left alone, and not even read: its gradient is a sum of zeros times the gradient of
// the output. What that means to the bit:
// - 0 * x is NaN where x is infinite or NaN. So rows are left alone only where every element of `output`
//   that the call would multiply by is finite, which is found out when the first such row is met. That costs
//   no more than the row it saves, and nothing where there is no such row.
// - v - 0 is v and v - (-0) is v, but for three: -0 - (-0) is 0, and here stays -0; a signalling NaN would
//   become quiet, and here stays signalling; a denormal would become 0 in a thread that takes denormals for
//   zero, as TensorFlow's do, and here stays what it is.
// - An input that is denormal counts as zero in just the threads whose products with it are zero.
// Every other element is what the two-step update computes, to the bit with one example; with more, the
// products are added in the order of the examples, each rounded.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

#include "tmflow/kernel.hpp"

namespace tmflow {
namespace {

// Whether `n` numbers are finite; without a branch, so that the compiler makes it wide.
template <class T>
bool all_finite(const T* numbers, std::size_t n) noexcept {
  int others = 0;
  for (std::size_t i = 0; i < n; ++i) {
    others |= !(numbers[i] <= std::numeric_limits<T>::max() && numbers[i] >= -std::numeric_limits<T>::max());
  }
  return others == 0;
}

// The two factors as a call reads them, and what it has found out about them.
template <class T>
class DenseFactors {
 public:
  // Of the elements [first, first + count) of the weights.
  DenseFactors(const DenseGradient<T>& gradient, std::size_t first, std::size_t count) noexcept
      : input_(gradient.input.data()),
        output_(gradient.output.data()),
        examples_(gradient.examples),
        rows_(gradient.rows()),
        columns_(gradient.columns()) {
    const std::size_t column = first % columns_;
    const bool in_one_row = column + count <= columns_;
    from_ = in_one_row ? column : 0;
    width_ = in_one_row ? count : columns_;
  }

  std::size_t examples() const noexcept { return examples_; }
  std::size_t columns() const noexcept { return columns_; }
  const T* input(std::size_t row) const noexcept { return input_ + row; }  // of example e, at [e * rows()]
  const T* output(std::size_t column) const noexcept { return output_ + column; }
  std::size_t rows() const noexcept { return rows_; }

  // Whether the row changes nothing.
  bool is_silent(std::size_t row) noexcept {
    for (std::size_t e = 0; e < examples_; ++e) {
      if (input_[e * rows_ + row] != 0) return false;
    }
    return zeros_silence();
  }

  // Whether zero times any of the output's elements of this call is zero.
  bool zeros_silence() noexcept {
    if (!asked_) {
      asked_ = finite_ = true;
      for (std::size_t e = 0; e < examples_; ++e) {
        finite_ = finite_ && all_finite(output_ + e * columns_ + from_, width_);
      }
    }
    return finite_;
  }

 private:
  const T* const input_;
  const T* const output_;
  const std::size_t examples_, rows_, columns_;
  std::size_t from_, width_;  // the columns that the call multiplies by
  bool asked_ = false, finite_ = false;
};

// `n` weights of one row, by one example.
template <class T>
void by_one_example(T* weights, T input, const T* output, T alpha, std::size_t n) noexcept {
  for (std::size_t c = 0; c < n; ++c) weights[c] -= alpha * (input * output[c]);
}

// `kWidth` weights of one row, by several examples: so few that their sums stay in registers.
template <std::size_t kWidth, class T>
void by_examples(T* weights, const DenseFactors<T>& factors, std::size_t row, std::size_t column,
                 T alpha) noexcept {
  const T* input = factors.input(row);
  const T* output = factors.output(column);
  T sums[kWidth];
  for (std::size_t c = 0; c < kWidth; ++c) sums[c] = *input * output[c];
  for (std::size_t e = 1; e < factors.examples(); ++e) {
    input += factors.rows();
    output += factors.columns();
    for (std::size_t c = 0; c < kWidth; ++c) sums[c] += *input * output[c];
  }
  for (std::size_t c = 0; c < kWidth; ++c) weights[c] -= alpha * sums[c];
}

// `n` weights of one row from `column` on, in pieces of kWidth and, what is left, of less.
template <std::size_t kWidth, class T>
void in_pieces(T* weights, const DenseFactors<T>& factors, std::size_t row, std::size_t column, T alpha,
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
  DenseFactors<T> factors(gradient, first, count);
  std::size_t row = first / factors.columns(), column = first % factors.columns();
  T* weights = variable + first;
  while (count > 0) {
    const std::size_t n = std::min(factors.columns() - column, count);
    if (!factors.is_silent(row)) {
      if (factors.examples() == 1) {
        by_one_example(weights, *factors.input(row), factors.output(column), alpha, n);
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
