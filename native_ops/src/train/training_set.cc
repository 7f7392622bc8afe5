#include "tmflow/train/training_set.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace tmflow::train {
namespace {

// At most this share of the numbers of listed images is not zero.
constexpr double kSparse = 0.5;

bool is_sparse(std::span<const float> images) {
  const auto zeros = static_cast<double>(std::ranges::count(images, 0.0F));
  return zeros >= (1 - kSparse) * static_cast<double>(images.size());
}

}  // namespace

TrainingSet::TrainingSet(std::span<const float> images, std::span<const float> labels, std::size_t pixels,
                         std::size_t classes)
    : images_(images), labels_(labels), pixels_(pixels), classes_(classes) {
  const std::size_t n = pixels == 0 ? 0 : images.size() / pixels;
  if (n == 0 || classes == 0 || images.size() != n * pixels || labels.size() != n * classes) {
    throw std::invalid_argument(
        "images must be [n, pixels] and labels [n, classes] with the same n, at least 1");
  }
  if (is_sparse(images)) sparse_.emplace(images, pixels);
}

TrainingSet TrainingSet::of_features(std::span<const std::int32_t> features, std::size_t each,
                                     std::span<const float> labels, std::size_t number, std::size_t classes,
                                     std::span<const float> values) {
  const std::size_t n = each == 0 ? 0 : features.size() / each;
  if (number == 0) throw std::invalid_argument("the number of all features must be at least 1");
  if (n == 0 || classes == 0 || features.size() != n * each || labels.size() != n * classes) {
    throw std::invalid_argument(
        "features must be [n, of each example] and labels [n, classes] with the same n, at least 1");
  }
  if (!values.empty() && values.size() != features.size()) {
    throw std::invalid_argument("values must have the shape of features");
  }
  return {SparseMatrix<float>(features, each, number, values), each, labels, number, classes};
}

}  // namespace tmflow::train
