#include "runner/initial_values.hpp"

#include <cmath>
#include <numbers>
#include <stdexcept>
#include <string>

#include "runner/numpy_random.hpp"

namespace tmflow::runner {
namespace {

constexpr std::uint32_t kStream = 2;                                       // stream of the random numbers
constexpr double kLow = 0.022750131948179195, kHigh = 0.9772498680518208;  // at -2 and 2 deviations

}  // namespace

// Newton's method on erf, started from an approximation that is accurate to a few per cent (Schmeiser 1979).
// erf keeps its relative precision around 0, where the cumulative distribution function loses it.
double normal_quantile(double probability) {
  const double beyond_half = probability - 0.5;
  double x = (std::pow(probability, 0.135) - std::pow(1 - probability, 0.135)) / 0.1975;
  for (int step = 0; step < 4; ++step) {
    const double off = 0.5 * std::erf(x / std::numbers::sqrt2) - beyond_half;
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    x -= off / density;
  }
  return x;
}

std::vector<std::vector<float>> initial_values(std::string_view model,
                                               const std::vector<train::VariableShape>& shapes,
                                               std::uint32_t seed) {
  if (model != "mnist_softmax" && model != "mnist_mlp") {
    throw std::invalid_argument("the initial values of model '" + std::string(model) + "' are not known");
  }
  NumpyRandom random(seed, kStream);
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    std::vector<float>& own = values.emplace_back(shapes[i].size());
    if (model == "mnist_softmax") continue;  // all variables start at 0
    const bool is_bias = i % 2 == 1;         // each layer has weights, then a bias
    for (float& value : own) {
      value = static_cast<float>(is_bias ? 0.1 : 0.1 * normal_quantile(random.uniform(kLow, kHigh)));
    }
  }
  return values;
}

}  // namespace tmflow::runner
