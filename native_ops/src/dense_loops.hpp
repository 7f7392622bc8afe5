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
// - If the caller lists the inputs that are not zero, the others are not even looked at.
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

// `n` weights of one row, with one example; n is at least kWidth and less than 2 * kWidth. Two pieces overlap
// if n is not kWidth: both are loaded before either is stored, so each weight changes once.
template <std::size_t kWidth, class T>
void in_two_pieces(T* weights, T input, const T* output, T alpha, std::size_t n) noexcept {
  const std::size_t second = n - kWidth;
  T low[kWidth], high[kWidth];
  for (std::size_t c = 0; c < kWidth; ++c) low[c] = weights[c] - alpha * (input * output[c]);
  for (std::size_t c = 0; c < kWidth; ++c)
    high[c] = weights[second + c] - alpha * (input * output[second + c]);
  for (std::size_t c = 0; c < kWidth; ++c) weights[c] = low[c];
  for (std::size_t c = 0; c < kWidth; ++c) weights[second + c] = high[c];
}

// `n` weights of one row, at least one, with one example.
template <std::size_t kWidth, class T>
void one_row(T* weights, T input, const T* output, T alpha, std::size_t n) noexcept {
  if (n >= 2 * kWidth) {
    by_one_example(weights, input, output, alpha, n);
  } else if (n >= kWidth) {
    in_two_pieces<kWidth>(weights, input, output, alpha, n);
  } else if constexpr (kWidth > 1) {
    one_row<kWidth / 2>(weights, input, output, alpha, n);
  }
}

// The first of the listed inputs whose row is `row` or a later one.
template <class T>
const NonZero<T>* first_from(const NonZero<T>* begin, std::size_t n, std::size_t row) noexcept {
  while (n > 0) {
    const std::size_t half = n / 2;
    if (begin[half].row < row) {
      begin += half + 1;
      n -= half + 1;
    } else {
      n = half;
    }
  }
  return begin;
}

// Rows of at most so many weights have a loop of their width. An optimising compiler unrolls it, so it has no
// branches, and its vectors straddle fewer cache lines than two that overlap.
constexpr std::size_t kNarrow = 16;

// A whole row, with one example; `kColumns` is its width, or 0 for any.
template <std::size_t kColumns, class T>
void whole_row(T* weights, T input, const T* output, T alpha, std::size_t columns) noexcept {
  if constexpr (kColumns == 0) {
    one_row<128 / sizeof(T)>(weights, input, output, alpha, columns);
  } else {
    T updated[kColumns];
    for (std::size_t c = 0; c < kColumns; ++c) updated[c] = weights[c] - alpha * (input * output[c]);
    for (std::size_t c = 0; c < kColumns; ++c) weights[c] = updated[c];
  }
}

// The elements [first, first + count) with one example, whose inputs other than zero are listed.
template <std::size_t kColumns, class T>
void listed(T* variable, const DenseGradient<T>& gradient, T alpha, std::size_t first,
            std::size_t count) noexcept {
  const std::size_t columns = kColumns == 0 ? gradient.output.size() : kColumns, end = first + count;
  const T* const output = gradient.output.data();
  const NonZero<T>* const list = gradient.nonzero->data();
  const NonZero<T>* const last = list + gradient.nonzero->size();
  for (const NonZero<T>* at = first_from(list, gradient.nonzero->size(), first / columns); at != last; ++at) {
    const std::size_t row = at->row * columns;
    if (row >= end) return;
    if (row >= first && row + columns <= end) {
      whole_row<kColumns>(variable + row, at->value, output, alpha, columns);
    } else {
      const std::size_t from = row < first ? first - row : 0;
      const std::size_t to = row + columns > end ? end - row : columns;
      one_row<128 / sizeof(T)>(variable + row + from, at->value, output + from, alpha, to - from);
    }
  }
}

// The same, by the loop for rows of the gradient's width.
template <std::size_t kColumns = kNarrow, class T>
void listed_by_width(T* variable, const DenseGradient<T>& gradient, T alpha, std::size_t first,
                     std::size_t count) noexcept {
  if constexpr (kColumns > 0) {
    if (gradient.output.size() != kColumns)
      return listed_by_width<kColumns - 1>(variable, gradient, alpha, first, count);
  }
  listed<kColumns>(variable, gradient, alpha, first, count);
}

// The elements [first, first + count), row by row; the first and the last may be parts of rows.
template <class T>
void dense(T* variable, const DenseGradient<T>& gradient, T alpha, std::size_t first,
           std::size_t count) noexcept {
  if (count == 0) return;
  if (gradient.nonzero && gradient.output_is_finite)
    return gradient.output.size() > kNarrow ? listed<0>(variable, gradient, alpha, first, count)
                                            : listed_by_width(variable, gradient, alpha, first, count);
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
