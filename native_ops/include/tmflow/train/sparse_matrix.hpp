// A matrix of which only the numbers that are not zero are kept.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/kernel.hpp"

namespace tmflow::train {

// Row by row (compressed sparse rows), each in the order of its columns. A row of this matrix is an example,
// and its numbers are the inputs of a layer, so their columns are rows of the layer's weights.
template <std::floating_point T>
class SparseMatrix {
 public:
  // Of a row-major matrix [n, columns].
  SparseMatrix(std::span<const T> dense, std::size_t columns) {
    begins_.push_back(0);
    for (std::size_t row = 0; row < dense.size() / columns; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        const T value = dense[row * columns + column];
        if (value != 0) numbers_.push_back({static_cast<std::uint32_t>(column), value});
      }
      begins_.push_back(numbers_.size());
    }
  }

  // Of zeros and ones: `places` has the columns of the ones, in any order, `ones` for each row. Throws
  // std::invalid_argument for a column that is not below `columns`, or that a row has twice.
  SparseMatrix(std::span<const std::int32_t> places, std::size_t ones, std::size_t columns) {
    begins_.push_back(0);
    numbers_.reserve(places.size());
    for (std::size_t row = 0; row < places.size() / ones; ++row) {
      std::vector<std::int32_t> of_row(places.begin() + static_cast<std::ptrdiff_t>(row * ones),
                                       places.begin() + static_cast<std::ptrdiff_t>((row + 1) * ones));
      std::ranges::sort(of_row);
      check(of_row, row, columns);
      for (const std::int32_t column : of_row) numbers_.push_back({static_cast<std::uint32_t>(column), T{1}});
      begins_.push_back(numbers_.size());
    }
  }

  std::span<const NonZero<T>> row(std::size_t row) const noexcept {
    return std::span(numbers_).subspan(begins_[row], begins_[row + 1] - begins_[row]);
  }

 private:
  static void check(std::span<const std::int32_t> sorted, std::size_t row, std::size_t columns) {
    const std::string example = "example " + std::to_string(row);
    for (const std::int32_t column : {sorted.front(), sorted.back()}) {
      if (column < 0 || static_cast<std::size_t>(column) >= columns) {
        throw std::invalid_argument(example + " has feature " + std::to_string(column) +
                                    ", but features are numbered from 0 to " + std::to_string(columns - 1));
      }
    }
    const auto twice = std::ranges::adjacent_find(sorted);
    if (twice != sorted.end()) {
      throw std::invalid_argument(example + " has feature " + std::to_string(*twice) + " twice");
    }
  }

  std::vector<NonZero<T>> numbers_;
  std::vector<std::size_t> begins_;  // of each row, and the end of the last one
};

}  // namespace tmflow::train
