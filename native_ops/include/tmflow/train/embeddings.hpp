// Models of pairs: a row of numbers (an embedding) for each thing, and a score for two of them.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tmflow/train/batch_rows.hpp"
#include "tmflow/train/dense_math.hpp"
#include "tmflow/train/model.hpp"

namespace tmflow::train {

// An example has a first row and `partners` others, with higher numbers. The score of a pair is the inner
// product of its two rows, and its loss the cross-entropy of sigmoid(score) with the partner's label, which
// is 0 or 1. The loss of an example is the sum over its pairs.
//
// The labels of the partners are the last `partners` of an example's labels: a model of one partner has two
// classes, so that its labels are one-hot like those of all models.
template <std::floating_point T>
class EmbeddingPass final : public Pass<T> {
 public:
  EmbeddingPass(std::size_t rows, std::size_t width, std::size_t partners, std::size_t classes)
      : width_(width), partners_(partners), classes_(classes), rows_(rows, width) {}

  T step(std::span<const T* const> read, const Batch<T>& batch, Gradients<T>& gradients) override {
    rows_.begin(batch);
    const NonZero<T>* placed = rows_.placed();
    double loss = 0;
    for (std::size_t e = 0; e < batch.examples; ++e) {
      const T* const labels = batch.labels.data() + (e + 1) * classes_ - partners_;
      loss += add_example(read[0], batch.nonzero(e), placed, labels, T{1} / static_cast<T>(batch.examples));
      placed += batch.nonzero(e).size();
    }
    gradients.rows(0, rows_.gradient());
    return static_cast<T>(loss / static_cast<double>(batch.examples));
  }

 private:
  // Adds `share` of the example's gradient to the sums of its rows; returns its loss.
  double add_example(const T* table, std::span<const NonZero<T>> rows, const NonZero<T>* placed,
                     const T* labels, T share) noexcept {
    T* const sums = rows_.sums().data();
    const T* const first = table + rows[0].row * width_;
    double loss = 0;
    for (std::size_t j = 1; j < rows.size(); ++j) {
      const T* const partner = table + rows[j].row * width_;
      const T score = math_.dot(first, partner, width_), label = labels[j - 1];
      loss +=
          static_cast<double>(std::max(score, T{0}) - score * label + std::log1p(std::exp(-std::abs(score))));
      const T error = (1 / (1 + std::exp(-score)) - label) * share;
      const NonZero<T> to_first{placed[0].row, error}, to_partner{placed[j].row, error};
      math_.add_sparse_weight_gradient(&to_first, 1, partner, sums, width_);
      math_.add_sparse_weight_gradient(&to_partner, 1, first, sums, width_);
    }
    return loss;
  }

  const DenseMath<T>& math_ = dense_math<T>();
  const std::size_t width_, partners_, classes_;
  BatchRows<T> rows_;
};

// One variable, the embeddings of all things, so that a strategy can make all rows of a step one update.
template <std::floating_point T>
class Embeddings final : public Model<T> {
 public:
  Embeddings(std::size_t rows, std::size_t width, std::size_t partners, std::size_t classes)
      : rows_(rows), width_(width), partners_(partners), classes_(classes) {}

  std::vector<VariableShape> variables() const override {
    return {{.name = "embeddings", .rows = rows_, .columns = width_, .by_rows = true}};
  }
  std::size_t pixels() const override { return rows_; }
  bool takes_images() const override { return false; }
  std::size_t features_of_example() const override { return partners_ + 1; }
  std::size_t classes() const override { return classes_; }

  std::unique_ptr<Pass<T>> make_pass(std::size_t) const override {
    return std::make_unique<EmbeddingPass<T>>(rows_, width_, partners_, classes_);
  }

 private:
  const std::size_t rows_, width_, partners_, classes_;
};

}  // namespace tmflow::train
