// Multinomial logistic regression on examples that have a few of many features.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tmflow/sync/cache_line.hpp"
#include "tmflow/train/batch_rows.hpp"
#include "tmflow/train/dense_math.hpp"
#include "tmflow/train/model.hpp"

namespace tmflow::train {

template <std::floating_point T>
class SparseRegressionPass final : public Pass<T> {
 public:
  SparseRegressionPass(std::size_t features, std::size_t classes, std::size_t batch)
      : classes_(classes), no_bias_(classes), scores_(batch * classes), rows_(features, classes) {}

  T step(std::span<const T* const> read, const Batch<T>& batch, Gradients<T>& gradients) override {
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const std::span<const NonZero<T>> input = batch.nonzero(e);
      math_.sparse_product(input.data(), input.size(), read[0], no_bias_.data(),
                           scores_.data() + e * classes_, classes_);
    }
    const T loss = math_.softmax_cross_entropy(scores_.data(), batch.labels.data(), batch.examples, classes_);
    rows_.begin(batch);
    const NonZero<T>* placed = rows_.placed();
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const std::size_t n = batch.nonzero(e).size();
      math_.add_sparse_weight_gradient(placed, n, scores_.data() + e * classes_, rows_.sums().data(),
                                       classes_);
      placed += n;
    }
    gradients.rows(0, rows_.gradient());
    return loss;
  }

 private:
  const DenseMath<T>& math_ = dense_math<T>();
  const std::size_t classes_;
  const LinesOf<T> no_bias_;
  LinesOf<T> scores_;  // of each example, and then their gradient
  BatchRows<T> rows_;
};

// One variable, the weights: a row for each feature, with an element for each class.
template <std::floating_point T>
class SparseRegression final : public Model<T> {
 public:
  SparseRegression(std::size_t features, std::size_t classes) : features_(features), classes_(classes) {}

  std::vector<VariableShape> variables() const override {
    return {{.name = "weights", .rows = features_, .columns = classes_, .by_rows = true}};
  }
  std::size_t pixels() const override { return features_; }
  bool takes_images() const override { return false; }
  std::size_t classes() const override { return classes_; }

  std::unique_ptr<Pass<T>> make_pass(std::size_t batch) const override {
    return std::make_unique<SparseRegressionPass<T>>(features_, classes_, batch);
  }

 private:
  const std::size_t features_, classes_;
};

}  // namespace tmflow::train
