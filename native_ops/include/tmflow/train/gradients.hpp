// The gradients of one worker's step, either written or kept as factors.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/train/dense_math.hpp"
#include "tmflow/train/placement.hpp"
#include "tmflow/train/training_set.hpp"

namespace tmflow::train {

// A model provides the gradient of each of its variables once per step. If updates are fused, that of a dense
// layer's weights is kept as two factors; these weights need a separate region. So does a variable of which a
// step updates some rows.
template <std::floating_point T>
class Gradients {
 public:
  Gradients(const Placement& placement, bool fused)
      : memory_(placement, [&](std::size_t region) { return placement.row_width(region) == 0; }),
        products_(placement.region_sizes().size()),
        rows_(placement.region_sizes().size()),
        places_(placement.places()),
        fused_(fused) {}

  // The gradient of the weights of a dense layer: its input, [examples, rows], and the gradient of its
  // output, [examples, columns], which must stay unchanged until the step has ended.
  void dense(std::size_t variable, std::span<const T> input, std::span<const T> output,
             std::size_t examples) noexcept {
    const DenseGradient<T> product{.input = input, .output = output, .examples = examples};
    if (fused_) {
      products_[places_[variable].region] = product;
      return;
    }
    math_.weight_gradient(input.data(), output.data(), written(variable).data(), examples, product.rows(),
                          product.columns());
  }

  // The same for the layer whose input is the images of the batch.
  void dense(std::size_t variable, const Batch<T>& batch, std::span<const T> output) noexcept {
    if (batch.sparse == nullptr) return dense(variable, batch.images, output, batch.examples);
    if (fused_) {
      DenseGradient<T> product{.input = batch.images, .output = output, .examples = batch.examples};
      if (batch.examples == 1) product.nonzero = batch.nonzero(0);
      products_[places_[variable].region] = product;
      return;
    }
    const std::span<T> gradient = written(variable);
    const std::size_t columns = output.size() / batch.examples;
    std::ranges::fill(gradient, T{0});
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const std::span<const NonZero<T>> input = batch.nonzero(e);
      math_.add_sparse_weight_gradient(input.data(), input.size(), output.data() + e * columns,
                                       gradient.data(), columns);
    }
  }

  // The gradient of the layer's bias.
  void bias(std::size_t variable, std::span<const T> output, std::size_t examples) noexcept {
    math_.bias_gradient(output.data(), written(variable).data(), examples, output.size() / examples);
  }

  // The gradient of some rows of a variable; it must stay unchanged until the step has ended.
  void rows(std::size_t variable, const RowGradient<T>& gradient) noexcept {
    rows_[places_[variable].region] = &gradient;
  }

  // The gradient of any other variable, to be written here.
  std::span<T> written(std::size_t variable) noexcept { return memory_.variable(variable); }

  // The update of a region with the gradient that the model provided.
  GradientDescent<T> update(std::size_t region, T alpha) noexcept {
    if (rows_[region] != nullptr) return {.alpha = alpha, .rows = rows_[region]};
    const std::optional<DenseGradient<T>>& product = products_[region];
    if (product) return {.alpha = alpha, .dense = &*product};
    return {.alpha = alpha, .delta = memory_.region(region)};
  }

 private:
  const DenseMath<T>& math_ = dense_math<T>();
  RegionMemory<T> memory_;
  std::vector<std::optional<DenseGradient<T>>> products_;  // by region
  std::vector<const RowGradient<T>*> rows_;                // by region
  const std::vector<Place> places_;
  const bool fused_;
};

}  // namespace tmflow::train
