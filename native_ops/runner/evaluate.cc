#include "runner/evaluate.hpp"

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <vector>

#include "runner/errors.hpp"
#include "runner/possible.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/train/dense_math.hpp"

namespace tmflow::runner {
namespace {

constexpr std::size_t kAtOnce = 500;  // images; the values between the layers fit into a cache

// The layers of a model: weights and bias, one after another.
class Layers {
 public:
  Layers(train::Trial& trial, bool sigmoid) : shapes_(trial.shapes()), sigmoid_(sigmoid) {
    for (std::size_t i = 0; i < shapes_.size(); ++i) variables_.push_back(trial.variable(i));
  }

  bool finite() const {
    return std::ranges::all_of(variables_, [](auto values) { return all_finite(values); });
  }

  // Takes images [examples, pixels]; returns [examples, 10].
  std::vector<float> scores(std::span<const float> images, std::size_t examples) const {
    std::vector<float> values(images.begin(), images.end());
    for (std::size_t layer = 0; layer < shapes_.size(); layer += 2) {
      const std::size_t rows = shapes_[layer].rows, columns = shapes_[layer].columns;
      std::vector<float> next(examples * columns);
      math_.product(values.data(), variables_[layer].data(), variables_[layer + 1].data(), next.data(),
                    examples, rows, columns);
      if (layer + 2 < shapes_.size()) (sigmoid_ ? math_.sigmoid : math_.relu)(next.data(), next.size());
      values = std::move(next);
    }
    return values;
  }

 private:
  const std::vector<train::VariableShape>& shapes_;
  const bool sigmoid_;
  const train::DenseMath<float>& math_ = train::dense_math<float>();
  std::vector<std::span<const float>> variables_;
};

}  // namespace

double accuracy(train::Trial& trial, const TrialData& data, std::size_t test_images, bool sigmoid) {
  const Layers layers(trial, sigmoid);
  const std::size_t pixels = trial.model().pixels();
  std::atomic<std::size_t> next{0}, right{0};
  std::atomic<bool> finite{layers.finite()};
  const auto work = [&] {
    for (std::size_t first; (first = next.fetch_add(kAtOnce)) < test_images;) {
      const std::size_t examples = std::min(kAtOnce, test_images - first);
      const auto images = std::span(data.test_images).subspan(first * pixels, examples * pixels);
      const std::vector<float> scores = layers.scores(images, examples);
      if (!all_finite(std::span(scores))) finite = false;
      for (std::size_t i = 0; i < examples; ++i) {
        const auto own = std::span(scores).subspan(i * Mnist::kClasses, Mnist::kClasses);
        right += std::ranges::max_element(own) - own.begin() == data.test_digits[first + i];
      }
    }
  };
  {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < cpus_allowed(); ++thread) others.emplace_back(work);
    work();
  }
  if (!finite) throw Diverged("the weights, or the scores of test images, are not finite numbers");
  return static_cast<double>(right) / static_cast<double>(test_images);
}

}  // namespace tmflow::runner
