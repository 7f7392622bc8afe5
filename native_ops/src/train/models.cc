#include "tmflow/train/models.hpp"

#include <stdexcept>
#include <string>

#include "tmflow/train/dense_network.hpp"
#include "tmflow/train/sparse_regression.hpp"

namespace tmflow::train {
namespace {

constexpr std::size_t kClasses = 10;

void require(bool fits, std::string_view model, const char* sentence) {
  if (!fits) throw std::invalid_argument("model '" + std::string(model) + "' " + sentence);
}

void require_images(const ModelFactors& factors, std::string_view model) {
  require(!factors.features && !factors.width, model, "takes images, so features and width do not apply");
}

Activation activation_of(std::string_view name) {
  if (name == "sigmoid") return Activation::sigmoid;
  if (name == "relu") return Activation::relu;
  throw std::invalid_argument("unknown activation '" + std::string(name) + "'; valid: sigmoid, relu");
}

}  // namespace

template <std::floating_point T>
std::unique_ptr<const Model<T>> make_model(std::string_view name, const ModelFactors& factors) {
  using Names = std::vector<std::string>;
  if (name == "sparse_logistic") {
    require(factors.features && *factors.features >= 1 && factors.width && *factors.width >= 1, name,
            "needs features (their number, at least 1) and width (the classes, at least 1)");
    require(!factors.hidden && !factors.activation, name,
            "has no hidden layer, so hidden and activation do not apply");
    return std::make_unique<SparseRegression<T>>(*factors.features, *factors.width);
  }
  require(factors.matrix >= 1, name, "needs a matrix of at least 1 pixel");
  if (name == "mnist_softmax") {
    require_images(factors, name);
    require(!factors.hidden && !factors.activation, name,
            "has no hidden layer, so hidden and activation do not apply");
    return std::make_unique<DenseNetwork<T>>(std::vector{factors.matrix, kClasses}, Names{"W", "b"},
                                             Activation::relu);
  }
  if (name == "mnist_mlp") {
    require_images(factors, name);
    require(factors.hidden && *factors.hidden >= 1 && factors.activation, name,
            "needs hidden (units of the hidden layer, at least 1) and activation");
    return std::make_unique<DenseNetwork<T>>(std::vector{factors.matrix, *factors.hidden, kClasses},
                                             Names{"fc1_W", "fc1_b", "fc2_W", "fc2_b"},
                                             activation_of(*factors.activation));
  }
  throw std::invalid_argument("the native driver has no model '" + std::string(name) +
                              "'; valid: mnist_softmax, mnist_mlp, sparse_logistic");
}

template std::unique_ptr<const Model<float>> make_model(std::string_view, const ModelFactors&);
template std::unique_ptr<const Model<double>> make_model(std::string_view, const ModelFactors&);

}  // namespace tmflow::train
