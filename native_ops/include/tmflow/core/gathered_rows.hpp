// The rows of a sparse gradient, put in order.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tmflow/core/kernel.hpp"

namespace tmflow {

// Throws std::invalid_argument unless the rows, which are in order, are in a variable of so many.
inline void check_rows(std::span<const std::int64_t> rows, std::size_t rows_of_variable) {
  if (rows.empty()) return;
  for (const std::int64_t row : {rows.front(), rows.back()}) {
    if (row >= 0 && static_cast<std::size_t>(row) < rows_of_variable) continue;
    throw std::invalid_argument("row " + std::to_string(row) + " is not in the variable, which has " +
                                std::to_string(rows_of_variable) + " rows, counted from 0");
  }
}

// A RowGradient of rows in any order. Rows that are given several times are added up in the order given, as
// TensorFlow does. The numbers of the rows are copied before they are checked, because another thread might
// change them. The values of rows that are in order already, each once, are referred to, so they must outlive
// this object.
template <std::floating_point T>
class GatheredRows {
 public:
  // `values` are [rows.size(), width]; the width is at least 1. The gradient has no size yet (`fit`).
  GatheredRows(std::span<const std::int64_t> rows, std::span<const T> values, std::size_t width)
      : rows_(rows.begin(), rows.end()) {
    if (std::ranges::adjacent_find(rows_, std::greater_equal<>()) != rows_.end()) {
      gather(std::exchange(rows_, {}), values, width);
      values = values_;
    }
    gradient_ = {.rows = rows_, .values = values, .width = width, .elements = 0};
  }
  GatheredRows(const GatheredRows&) = delete;

  // Makes it a gradient of a variable with that many rows. Throws std::invalid_argument for a row beyond.
  void fit(std::size_t rows_of_variable) {
    check_rows(gradient_.rows, rows_of_variable);
    gradient_.elements = rows_of_variable * gradient_.width;
  }

  const RowGradient<T>& gradient() const noexcept { return gradient_; }

 private:
  void gather(const std::vector<std::int64_t>& rows, std::span<const T> values, std::size_t width) {
    rows_.reserve(rows.size());
    values_.reserve(values.size());
    std::vector<std::size_t> order(rows.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return rows[i]; });
    for (const std::size_t i : order) {
      const std::span<const T> given = values.subspan(i * width, width);
      if (rows_.empty() || rows_.back() != rows[i]) {
        rows_.push_back(rows[i]);
        values_.insert(values_.end(), given.begin(), given.end());
      } else {
        T* const sum = &values_[values_.size() - width];
        for (std::size_t c = 0; c < width; ++c) sum[c] += given[c];
      }
    }
  }

  std::vector<std::int64_t> rows_;
  std::vector<T> values_;
  RowGradient<T> gradient_;
};

}  // namespace tmflow
