// A matrix of which only the numbers that are not zero are kept.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
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

  std::span<const NonZero<T>> row(std::size_t row) const noexcept {
    return std::span(numbers_).subspan(begins_[row], begins_[row + 1] - begins_[row]);
  }

 private:
  std::vector<NonZero<T>> numbers_;
  std::vector<std::size_t> begins_;  // of each row, and the end of the last one
};

}  // namespace tmflow::train
