#include "tmflow/train/models.hpp"

#include <algorithm>
#include <initializer_list>
#include <stdexcept>
#include <string>

#include "tmflow/train/dense_network.hpp"
#include "tmflow/train/embeddings.hpp"
#include "tmflow/train/sparse_regression.hpp"

namespace tmflow::train {
namespace {

constexpr std::size_t kClasses = 10;

constexpr const char* kNoHiddenLayer = "has no hidden layer, so hidden and activation do not apply";

void require(bool fits, std::string_view model, const std::string& sentence) {
  if (!fits) throw std::invalid_argument("model '" + std::string(model) + "' " + sentence);
}

// Throws unless the model's factors are exactly these numbers, each at least 1. `wanted` is in order.
void require_numbers(const ModelFactors& factors, std::string_view model,
                     std::initializer_list<std::string_view> wanted) {
  const auto is_wanted = [](const auto& number, std::string_view name) {
    return number.first == name && number.second >= 1;
  };
  std::string names;
  for (const std::string_view name : wanted) names.append(names.empty() ? "" : ", ").append(name);
  require(std::ranges::equal(factors.numbers, wanted, is_wanted), model,
          names.empty() ? "takes images, so it has no numbers of rows"
                        : "needs the numbers " + names + ", each at least 1, and no others");
  require(wanted.size() == 0 || (!factors.hidden && !factors.activation), model, kNoHiddenLayer);
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
  const auto number = [&](std::string_view factor) { return factors.numbers.find(factor)->second; };
  if (name == "matrix_factorisation") {
    require_numbers(factors, name, {"items", "users", "width"});
    return std::make_unique<Embeddings<T>>(number("users") + number("items"), number("width"), 1, 2);
  }
  if (name == "skipgram") {
    require_numbers(factors, name, {"negatives", "width", "words"});
    const std::size_t partners = 1 + number("negatives");
    return std::make_unique<Embeddings<T>>(2 * number("words"), number("width"), partners, partners);
  }
  if (name == "sparse_logistic") {
    require_numbers(factors, name, {"features", "width"});
    return std::make_unique<SparseRegression<T>>(number("features"), number("width"));
  }
  require(factors.matrix >= 1, name, "needs a matrix of at least 1 pixel");
  if (name == "mnist_softmax") {
    require_numbers(factors, name, {});
    require(!factors.hidden && !factors.activation, name, kNoHiddenLayer);
    return std::make_unique<DenseNetwork<T>>(std::vector{factors.matrix, kClasses}, Names{"W", "b"},
                                             Activation::relu);
  }
  if (name == "mnist_mlp") {
    require_numbers(factors, name, {});
    require(factors.hidden && *factors.hidden >= 1 && factors.activation, name,
            "needs hidden (units of the hidden layer, at least 1) and activation");
    return std::make_unique<DenseNetwork<T>>(std::vector{factors.matrix, *factors.hidden, kClasses},
                                             Names{"fc1_W", "fc1_b", "fc2_W", "fc2_b"},
                                             activation_of(*factors.activation));
  }
  throw std::invalid_argument(
      "the native driver has no model '" + std::string(name) +
      "'; valid: matrix_factorisation, mnist_mlp, mnist_softmax, skipgram, sparse_logistic");
}

template std::unique_ptr<const Model<float>> make_model(std::string_view, const ModelFactors&);
template std::unique_ptr<const Model<double>> make_model(std::string_view, const ModelFactors&);

}  // namespace tmflow::train
