// What a trial trains on: images and labels.
#pragma once

#include <concepts>
#include <cstddef>
#include <optional>
#include <span>

#include "tmflow/train/sparse_matrix.hpp"

namespace tmflow::train {

// Consecutive examples of a training set.
template <std::floating_point T>
struct Batch {
  std::span<const T> images;  // [examples, pixels]
  std::span<const T> labels;  // one-hot [examples, classes]
  std::size_t examples;
  const SparseMatrix<T>* sparse = nullptr;  // the whole set's images, if most pixels are zero
  std::size_t first = 0;                    // the number of the first example in the set

  // The pixels of an example that are not zero; only if there is a sparse matrix.
  std::span<const NonZero<T>> nonzero(std::size_t example) const noexcept {
    return sparse->row(first + example);
  }
};

// Images [n, pixels] and labels [n, classes], which the caller keeps alive and unchanged. Four fifths of
// MNIST's pixels are zero, so the others are listed once, for all trials. Images of which more than half is
// not zero are not listed, because a step with lists would take longer.
class TrainingSet {
 public:
  // Throws std::invalid_argument if the numbers of images and labels differ.
  TrainingSet(std::span<const float> images, std::span<const float> labels, std::size_t pixels,
              std::size_t classes);

  std::size_t size() const noexcept { return images_.size() / pixels_; }
  std::size_t pixels() const noexcept { return pixels_; }
  std::size_t classes() const noexcept { return classes_; }

  Batch<float> batch(std::size_t first, std::size_t examples) const noexcept {
    return {.images = images_.subspan(first * pixels_, examples * pixels_),
            .labels = labels_.subspan(first * classes_, examples * classes_),
            .examples = examples,
            .sparse = sparse_ ? &*sparse_ : nullptr,
            .first = first};
  }

 private:
  const std::span<const float> images_, labels_;
  const std::size_t pixels_, classes_;
  std::optional<SparseMatrix<float>> sparse_;
};

}  // namespace tmflow::train
