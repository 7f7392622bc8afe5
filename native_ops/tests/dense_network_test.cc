// The models of the native driver: their gradients against finite differences, and values close to infinity.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tmflow/train/models.hpp"

namespace tmflow::train {
namespace {

using Values = std::vector<std::vector<double>>;

enum class Pixels { all, few };  // of which each second one, and the whole first image, is zero

// A model in double precision over random numbers.
class Checked {
 public:
  Checked(std::string_view name, const ModelFactors& factors, std::size_t examples, Pixels pixels)
      : model_(make_model<double>(name, factors)),
        placement_(model_->variables(), Layout::separate),
        gradients_(placement_, false),
        pass_(model_->make_pass(examples)),
        examples_(examples),
        images_(examples * model_->pixels()),
        labels_(examples * model_->classes()) {
    for (const VariableShape& shape : model_->variables()) {
      values.emplace_back(shape.size());
      for (double& value : values.back()) value = normal_(random_);
    }
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const bool is_zero = pixels == Pixels::few && (i % 2 == 0 || (examples > 1 && i < model_->pixels()));
      images_[i] = is_zero ? 0 : normal_(random_);
    }
    if (pixels == Pixels::few) sparse_ = std::make_unique<SparseMatrix<double>>(images_, model_->pixels());
    for (std::size_t e = 0; e < examples; ++e) labels_[e * model_->classes() + e % model_->classes()] = 1;
  }

  double loss() {
    std::vector<const double*> read;
    for (const auto& value : values) read.push_back(value.data());
    const Batch<double> batch{
        .images = images_, .labels = labels_, .examples = examples_, .sparse = sparse_.get()};
    return pass_->step(read, batch, gradients_);
  }

  // A gradient of the previous step.
  double gradient(std::size_t variable, std::size_t element) { return gradients_.written(variable)[element]; }

  Values values;

 private:
  std::mt19937 random_{7};
  std::normal_distribution<double> normal_{0, 0.5};
  const std::unique_ptr<const Model<double>> model_;
  const Placement placement_;
  Gradients<double> gradients_;
  const std::unique_ptr<Pass<double>> pass_;
  const std::size_t examples_;
  std::vector<double> images_, labels_;
  std::unique_ptr<const SparseMatrix<double>> sparse_;
};

void expect_true_gradients(Checked checked) {
  checked.loss();
  Values gradients = checked.values;
  for (std::size_t v = 0; v < gradients.size(); ++v) {
    for (std::size_t i = 0; i < gradients[v].size(); ++i) gradients[v][i] = checked.gradient(v, i);
  }
  constexpr double kStep = 1e-6;
  for (std::size_t v = 0; v < gradients.size(); ++v) {
    for (std::size_t i = 0; i < gradients[v].size(); ++i) {
      double& value = checked.values[v][i];
      const double before = value;
      value = before + kStep;
      const double above = checked.loss();
      value = before - kStep;
      const double below = checked.loss();
      value = before;
      ASSERT_NEAR(gradients[v][i], (above - below) / (2 * kStep), 1e-7) << "variable " << v << ", " << i;
    }
  }
}

TEST(DenseNetwork, GradientsAreThoseOfTheLoss) {
  for (const std::size_t examples : {1, 2, 5, 8}) {
    for (const Pixels pixels : {Pixels::all, Pixels::few}) {
      expect_true_gradients({"mnist_softmax", {.matrix = 21}, examples, pixels});
      for (const std::string_view activation : {"relu", "sigmoid"}) {
        expect_true_gradients(
            {"mnist_mlp", {.matrix = 9, .hidden = 19, .activation = activation}, examples, pixels});
      }
    }
  }
}

// Of small integers, so that every order of the additions gives the same sum. Numbers outside the output and
// weights whose input is zero are NaN, and stay out of it.
template <class T>
void expect_sparse_product(std::size_t columns, std::size_t n) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  std::vector<NonZero<T>> input;
  std::vector<T> weights((2 * n + 1) * columns, kNan), bias(columns), output(columns + 1, kNan);
  for (std::size_t c = 0; c < columns; ++c) bias[c] = static_cast<T>(c);
  std::vector<T> expected = bias;
  for (std::size_t i = 0; i < n; ++i) {
    input.push_back({static_cast<std::uint32_t>(2 * i), static_cast<T>(i + 1)});
    for (std::size_t c = 0; c < columns; ++c) {
      T& weight = weights[2 * i * columns + c];
      weight = static_cast<T>((7 * i + 3 * c) % 11) - 5;
      expected[c] += input[i].value * weight;
    }
  }
  dense_math<T>().sparse_product(input.data(), n, weights.data(), bias.data(), output.data(), columns);
  for (std::size_t c = 0; c < columns; ++c)
    ASSERT_EQ(output[c], expected[c]) << columns << " columns, " << n << " inputs, column " << c;
  EXPECT_TRUE(std::isnan(output[columns]));
}

TEST(DenseNetwork, SparseProductsOfEveryWidth) {
  for (std::size_t columns = 1; columns <= 70; ++columns) {
    for (std::size_t n = 0; n <= 9; ++n) {
      expect_sparse_product<float>(columns, n);
      expect_sparse_product<double>(columns, n);
    }
  }
}

TEST(DenseNetwork, LossOfLargeScoresIsFinite) {
  for (const float scale : {1e4F, -1e4F}) {
    std::vector<float> scores{scale, 0, 0}, labels{0, 1, 0};
    const float loss = dense_math<float>().softmax_cross_entropy(scores.data(), labels.data(), 1, 3);
    EXPECT_FLOAT_EQ(loss, scale > 0 ? scale : std::log(2.0F));
    for (const float gradient : scores) EXPECT_TRUE(std::isfinite(gradient));
  }
}

TEST(DenseNetwork, SigmoidIsThatOfTheLibrary) {
  for (float x = -100; x <= 100; x += 0.37F) {
    float value = x;
    dense_math<float>().sigmoid(&value, 1);
    const double expected = 1 / (1 + std::exp(-static_cast<double>(x)));
    EXPECT_NEAR(value, expected, 3e-7 * expected + 1e-37);
  }
}

}  // namespace
}  // namespace tmflow::train
