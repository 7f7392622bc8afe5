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
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/large_pages.hpp"

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

  // `places` has the columns of the numbers, in any order, `each` for each row, and `values` the numbers;
  // those that are 0 are left out. Without values all are 1. Throws std::invalid_argument for a column that
  // is not below `columns`, or that a row has twice.
  SparseMatrix(std::span<const std::int32_t> places, std::size_t each, std::size_t columns,
               std::span<const T> values = {}) {
    begins_.push_back(0);
    numbers_.reserve(places.size());
    for (std::size_t row = 0; row < places.size() / each; ++row) {
      for (std::size_t i = row * each; i < (row + 1) * each; ++i) {
        check(places[i], row, columns);
        const T value = values.empty() ? T{1} : values[i];
        if (value == 0) continue;
        numbers_.push_back({static_cast<std::uint32_t>(places[i]), value});
      }
      const auto of_row = std::span(numbers_).subspan(begins_.back());
      std::ranges::sort(of_row, {}, &NonZero<T>::row);
      check_distinct(of_row, row);
      begins_.push_back(numbers_.size());
    }
  }

  std::span<const NonZero<T>> row(std::size_t row) const noexcept {
    return std::span(numbers_).subspan(begins_[row], begins_[row + 1] - begins_[row]);
  }

  // Brings a row into the caches, without waiting for it.
  void prefetch(std::size_t row) const noexcept { prefetch_lines(this->row(row)); }

 private:
  static void check(std::int32_t column, std::size_t row, std::size_t columns) {
    if (column < 0 || static_cast<std::size_t>(column) >= columns) {
      throw std::invalid_argument("example " + std::to_string(row) + " has feature " +
                                  std::to_string(column) + ", but features are numbered from 0 to " +
                                  std::to_string(columns - 1));
    }
  }

  static void check_distinct(std::span<const NonZero<T>> sorted, std::size_t row) {
    const auto twice = std::ranges::adjacent_find(sorted, {}, &NonZero<T>::row);
    if (twice != sorted.end()) {
      throw std::invalid_argument("example " + std::to_string(row) + " has feature " +
                                  std::to_string(twice->row) + " twice");
    }
  }

  std::vector<NonZero<T>, LargePages<NonZero<T>>> numbers_;
  std::vector<std::size_t> begins_;  // of each row, and the end of the last one
};

}  // namespace tmflow::train
