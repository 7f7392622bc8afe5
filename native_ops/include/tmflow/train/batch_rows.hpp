// The gradient of the rows that the examples of a batch have.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/train/training_set.hpp"

namespace tmflow::train {

// Rows of a variable [rows, width]: each row that an example has, once, with the sum over the examples. The
// memory grows with the largest batch, and is kept.
template <std::floating_point T>
class BatchRows {
 public:
  BatchRows(std::size_t rows, std::size_t width) : width_(width), elements_(rows * width) {}

  // Lists the rows of a batch, with sums of 0.
  void begin(const Batch<T>& batch) {
    place(batch);
    const std::size_t needed = rows_.size() * width_;
    if (values_.size() < needed) values_.resize(needed);
    std::ranges::fill(sums(), T{0});
  }

  // The inputs of all examples of the batch, one after another. `row` is the place in the list, and not the
  // row of the variable.
  const NonZero<T>* placed() const noexcept { return inputs_.data(); }

  // The sums of the listed rows, [listed, width]; to be written by the caller.
  std::span<T> sums() noexcept { return std::span<T>(values_).first(rows_.size() * width_); }

  // The listed rows and their sums as a gradient; valid until the next batch.
  const RowGradient<T>& gradient() noexcept {
    gradient_ = {.rows = rows_, .values = sums(), .width = width_, .elements = elements_};
    return gradient_;
  }

 private:
  void place(const Batch<T>& batch) {
    inputs_.clear();
    order_.clear();
    for (std::size_t e = 0; e < batch.examples; ++e) {
      for (const NonZero<T>& input : batch.nonzero(e)) {
        order_.push_back(std::uint64_t{input.row} << 32 | inputs_.size());
        inputs_.push_back(input);
      }
    }
    if (batch.examples > 1) std::ranges::sort(order_);  // the inputs of one example are in order
    rows_.clear();
    for (const std::uint64_t packed : order_) {
      const auto row = static_cast<std::int64_t>(packed >> 32);
      if (rows_.empty() || rows_.back() != row) rows_.push_back(row);
      inputs_[static_cast<std::uint32_t>(packed)].row = static_cast<std::uint32_t>(rows_.size() - 1);
    }
  }

  const std::size_t width_, elements_;
  std::vector<std::uint64_t> order_;  // the row of each input, and below it the number of the input
  std::vector<NonZero<T>> inputs_;
  std::vector<std::int64_t> rows_;
  LinesOf<T> values_;
  RowGradient<T> gradient_{};
};

}  // namespace tmflow::train
