// Dense layers one after another, with softmax cross-entropy at the end: both models of the native driver.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tmflow/train/dense_math.hpp"
#include "tmflow/train/model.hpp"

namespace tmflow::train {

enum class Activation { sigmoid, relu };

template <std::floating_point T>
class DensePass final : public Pass<T> {
 public:
  DensePass(const std::vector<std::size_t>& widths, Activation activation, std::size_t batch)
      : widths_(widths), activation_(activation) {
    for (std::size_t layer = 0; layer + 1 < widths.size(); ++layer) {
      outputs_.emplace_back(batch * widths[layer + 1]);
      errors_.emplace_back(layer + 2 < widths.size() ? outputs_.back().size() : 0);
      turned_.emplace_back(layer == 0 ? 0 : widths[layer] * widths[layer + 1]);
    }
  }

  T step(std::span<const T* const> read, const Batch<T>& batch, Gradients<T>& gradients) noexcept override {
    const std::size_t last = outputs_.size() - 1, examples = batch.examples;
    std::span<const T> input = batch.images;
    for (std::size_t layer = 0; layer <= last; ++layer) {
      const std::span<T> output = of(outputs_, layer, examples);
      if (layer == 0 && batch.sparse != nullptr) {
        sparse_product(batch, read[0], read[1], output);
      } else {
        math_.product(input.data(), read[2 * layer], read[2 * layer + 1], output.data(), examples,
                      widths_[layer], widths_[layer + 1]);
      }
      if (layer < last) activate(output);
      input = output;
    }
    const T loss =
        math_.softmax_cross_entropy(outputs_[last].data(), batch.labels.data(), examples, widths_.back());
    std::span<const T> error = of(outputs_, last, examples);
    for (std::size_t layer = last; layer > 0; --layer) {
      gradients.dense(2 * layer, of(outputs_, layer - 1, examples), error, examples);
      gradients.bias(2 * layer + 1, error, examples);
      error = back_through(layer, read[2 * layer], error, examples);
    }
    gradients.dense(0, batch, error);
    gradients.bias(1, error, examples);
    return loss;
  }

 private:
  using Layers = std::vector<LinesOf<T>>;

  std::span<T> of(Layers& layers, std::size_t layer, std::size_t examples) noexcept {
    return std::span<T>(layers[layer]).first(examples * widths_[layer + 1]);
  }

  // The output of the first layer, from the pixels that are not zero.
  void sparse_product(const Batch<T>& batch, const T* weights, const T* bias,
                      std::span<T> output) const noexcept {
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const std::span<const NonZero<T>> input = batch.nonzero(e);
      math_.sparse_product(input.data(), input.size(), weights, bias, output.data() + e * widths_[1],
                           widths_[1]);
    }
  }

  void activate(std::span<T> values) const noexcept {
    (activation_ == Activation::relu ? math_.relu : math_.sigmoid)(values.data(), values.size());
  }

  // The gradient of the output of the layer before `layer`, before its activation.
  std::span<const T> back_through(std::size_t layer, const T* weights, std::span<const T> error,
                                  std::size_t examples) noexcept {
    const std::span<const T> values = of(outputs_, layer - 1, examples);
    const std::span<T> before = of(errors_, layer - 1, examples);
    math_.transpose(weights, turned_[layer].data(), widths_[layer], widths_[layer + 1]);
    math_.product(error.data(), turned_[layer].data(), nullptr, before.data(), examples, widths_[layer + 1],
                  widths_[layer]);
    (activation_ == Activation::relu ? math_.relu_gradient : math_.sigmoid_gradient)(
        values.data(), before.data(), before.size());
    return before;
  }

  const DenseMath<T>& math_ = dense_math<T>();
  const std::vector<std::size_t> widths_;
  const Activation activation_;
  Layers
      outputs_;    // of each layer, after its activation; of the last one, the scores and then their gradient
  Layers errors_;  // gradients of the outputs, before the activation; the last one's is in outputs_
  Layers turned_;  // transposed weights
};

// `widths` are those of the input and of each layer's output. The variables are the weights and the bias of
// each layer, in this order.
template <std::floating_point T>
class DenseNetwork final : public Model<T> {
 public:
  DenseNetwork(std::vector<std::size_t> widths, std::vector<std::string> names, Activation activation)
      : widths_(std::move(widths)), names_(std::move(names)), activation_(activation) {}

  std::vector<VariableShape> variables() const override {
    std::vector<VariableShape> shapes;
    for (std::size_t layer = 0; layer + 1 < widths_.size(); ++layer) {
      shapes.push_back({names_[2 * layer], widths_[layer], widths_[layer + 1]});
      shapes.push_back({names_[2 * layer + 1], 1, widths_[layer + 1]});
    }
    return shapes;
  }

  std::size_t pixels() const override { return widths_.front(); }
  std::size_t classes() const override { return widths_.back(); }

  std::unique_ptr<Pass<T>> make_pass(std::size_t batch) const override {
    return std::make_unique<DensePass<T>>(widths_, activation_, batch);
  }

 private:
  const std::vector<std::size_t> widths_;
  const std::vector<std::string> names_;
  const Activation activation_;
};

}  // namespace tmflow::train
