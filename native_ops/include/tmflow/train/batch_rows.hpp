// The gradient of a layer's weights by the inputs that are not zero: only of their rows.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/train/dense_math.hpp"
#include "tmflow/train/training_set.hpp"

namespace tmflow::train {

// The weights are [rows, width]. The memory grows with the largest batch, and is kept.
template <std::floating_point T>
class BatchRows {
 public:
  BatchRows(std::size_t rows, std::size_t width) : width_(width), elements_(rows * width) {}

  // Each row that an example of the batch has, once: the sum over the examples e, in their order, of the
  // input times output[e]. `output` is the gradient of the layer's output, [examples, width]. The result is
  // valid until the next call.
  const RowGradient<T>& of(const Batch<T>& batch, std::span<const T> output) {
    place(batch);
    const std::span<T> values = sums();
    std::ranges::fill(values, T{0});
    const NonZero<T>* input = inputs_.data();
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const std::size_t n = batch.nonzero(e).size();
      math_.add_sparse_weight_gradient(input, n, output.data() + e * width_, values.data(), width_);
      input += n;
    }
    gradient_ = {.rows = rows_, .values = values, .width = width_, .elements = elements_};
    return gradient_;
  }

 private:
  // Lists the rows, and the inputs with the place of their row in that list.
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

  std::span<T> sums() {
    const std::size_t needed = rows_.size() * width_;
    if (values_.size() < needed) values_.resize(needed);
    return std::span<T>(values_).first(needed);
  }

  const DenseMath<T>& math_ = dense_math<T>();
  const std::size_t width_, elements_;
  std::vector<std::uint64_t> order_;  // the row of each input, and below it the number of the input
  std::vector<NonZero<T>> inputs_;
  std::vector<std::int64_t> rows_;
  LinesOf<T> values_;
  RowGradient<T> gradient_{};
};

}  // namespace tmflow::train
