// What a trial trains on: images, or examples that have a few of many features, and labels.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>

#include "tmflow/sync/cache_line.hpp"
#include "tmflow/train/sparse_matrix.hpp"

namespace tmflow::train {

// Consecutive examples of a training set.
template <std::floating_point T>
struct Batch {
  std::span<const T> images;  // [examples, pixels]; none if the examples are given by their features
  std::span<const T> labels;  // one-hot [examples, classes]
  std::size_t examples;
  const SparseMatrix<T>* sparse = nullptr;  // the whole set, if most of its numbers are zero
  std::size_t first = 0;                    // the number of the first example in the set

  // The pixels or features of an example that are not zero; only if there is a sparse matrix.
  std::span<const NonZero<T>> nonzero(std::size_t example) const noexcept {
    return sparse->row(first + example);
  }
};

// Images [n, pixels] and labels [n, classes], which the caller keeps alive and unchanged. Four fifths of
// MNIST's pixels are zero, so the others are listed once, for all trials. Images of which more than half is
// not zero are not listed, because a step with lists would take longer.
//
// Examples that have a few of many features are only listed: each feature that an example has is 1, or has a
// value.
class TrainingSet {
 public:
  // Throws std::invalid_argument if the numbers of images and labels differ.
  TrainingSet(std::span<const float> images, std::span<const float> labels, std::size_t pixels,
              std::size_t classes);

  // `features` has the numbers of the features that an example has, `each` of them for every example, and
  // `values` the value of each; one that is 0 counts as absent. No values: all are 1. Throws
  // std::invalid_argument if the numbers of examples, values and labels differ, and as SparseMatrix does.
  static TrainingSet of_features(std::span<const std::int32_t> features, std::size_t each,
                                 std::span<const float> labels, std::size_t number, std::size_t classes,
                                 std::span<const float> values = {});

  std::size_t size() const noexcept { return labels_.size() / classes_; }
  bool has_images() const noexcept { return !images_.empty(); }
  // The numbers of an image, or the number of all features.
  std::size_t pixels() const noexcept { return pixels_; }
  // How many features an example has, at most if they have values; of images 0.
  std::size_t features_of_example() const noexcept { return features_of_example_; }
  std::size_t classes() const noexcept { return classes_; }

  Batch<float> batch(std::size_t first, std::size_t examples) const noexcept {
    return {.images = has_images() ? images_.subspan(first * pixels_, examples * pixels_) : images_,
            .labels = labels_.subspan(first * classes_, examples * classes_),
            .examples = examples,
            .sparse = sparse_ ? &*sparse_ : nullptr,
            .first = first};
  }

  // Brings the list of the example and its label into the caches. Batches are shuffled, so the processor
  // cannot foresee where they are; of the further examples of a batch it can.
  void prefetch(std::size_t example) const noexcept {
    if (!sparse_) return;
    prefetch_lines(labels_.subspan(example * classes_, classes_));
    sparse_->prefetch(example);
  }

 private:
  TrainingSet(SparseMatrix<float> sparse, std::size_t of_example, std::span<const float> labels,
              std::size_t pixels, std::size_t classes)
      : labels_(labels),
        pixels_(pixels),
        features_of_example_(of_example),
        classes_(classes),
        sparse_(std::move(sparse)) {}

  const std::span<const float> images_, labels_;
  const std::size_t pixels_, features_of_example_ = 0, classes_;
  std::optional<SparseMatrix<float>> sparse_;
};

}  // namespace tmflow::train
