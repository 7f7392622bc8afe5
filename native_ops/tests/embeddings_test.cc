// Models of pairs of rows: their gradient, their trials, and data that does not fit.
#include "tmflow/train/embeddings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/train/models.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::train {
namespace {

// Examples of a model: its factors, and the rows of each example, which others have, too.
struct PairModel {
  const char* name;
  ModelFactors factors;
  std::size_t table, width, each, classes;
  std::vector<std::int32_t> rows;

  std::size_t examples() const { return rows.size() / each; }

  template <class T>
  std::vector<T> labels() const {
    std::vector<T> hot(examples() * classes);
    for (std::size_t e = 0; e < examples(); ++e) hot[e * classes + e % classes] = 1;
    return hot;
  }
};

PairModel factorisation(std::size_t width) {
  return {.name = "matrix_factorisation",
          .factors = {.matrix = 1, .numbers = {{"users", 3}, {"items", 4}, {"width", width}}},
          .table = 7,
          .width = width,
          .each = 2,
          .classes = 2,
          .rows = {0, 3, 1, 4, 0, 5, 2, 6, 2, 3, 0, 3}};
}

PairModel skipgram(std::size_t width) {
  return {.name = "skipgram",
          .factors = {.matrix = 1, .numbers = {{"words", 5}, {"negatives", 2}, {"width", width}}},
          .table = 10,
          .width = width,
          .each = 4,
          .classes = 3,
          .rows = {0, 5, 6, 9, 1, 6, 7, 8, 0, 7, 8, 9, 4, 5, 6, 7}};
}

// Whole numbers, so that sums are exact in any order.
template <class T>
void expect_the_inner_product() {
  std::mt19937 random(3);
  for (std::size_t n = 1; n <= 67; ++n) {
    std::vector<T> a(n), b(n);
    T expected = 0;
    for (std::size_t i = 0; i < n; ++i) {
      a[i] = static_cast<T>(random() % 100);
      b[i] = static_cast<T>(random() % 100) - 50;
      expected += a[i] * b[i];
    }
    EXPECT_EQ(dense_math<T>().dot(a.data(), b.data(), n), expected) << n;
  }
}

TEST(DenseMath, TheInnerProductHasEveryElementOnce) {
  expect_the_inner_product<float>();
  expect_the_inner_product<double>();
}

// More and fewer elements than a vector has, and one that is left over.
TEST(Embeddings, TheirGradientIsThatOfTheLossInEveryRowThatTheBatchHas) {
  for (const std::size_t width : {1, 2, 7, 16, 33}) {
    for (const PairModel& made : {factorisation(width), skipgram(width)}) {
      const SparseMatrix<double> sparse(made.rows, made.each, made.table);
      const std::vector<double> labels = made.labels<double>();
      for (const std::size_t examples : {std::size_t{1}, std::size_t{2}, made.examples()}) {
        const auto model = make_model<double>(made.name, made.factors);
        const Placement placement(model->variables(), Layout::separate);
        Gradients<double> gradients(placement, false);
        const auto pass = model->make_pass(examples);
        std::vector<double> table(made.table * width);
        std::mt19937 random(7);
        for (double& element : table) element = std::normal_distribution<double>()(random);
        const Batch<double> batch{.images = {}, .labels = labels, .examples = examples, .sparse = &sparse};
        const auto loss = [&] {
          return pass->step(std::vector<const double*>{table.data()}, batch, gradients);
        };

        loss();
        const RowGradient<double> gradient = *gradients.update(0, 1.0).rows;
        EXPECT_EQ(gradient.elements, table.size());
        EXPECT_LE(gradient.rows.size(), examples * made.each);
        std::vector<double> written(table.size());
        gradient.for_each_part(0, table.size(), [&](std::size_t begin, std::size_t n, const double* values) {
          std::copy_n(values, n, written.begin() + static_cast<std::ptrdiff_t>(begin));
        });
        constexpr double kStep = 1e-6;
        for (std::size_t i = 0; i < table.size(); ++i) {
          const double before = table[i];
          table[i] = before + kStep;
          const double above = loss();
          table[i] = before - kStep;
          const double below = loss();
          table[i] = before;
          ASSERT_NEAR(written[i], (above - below) / (2 * kStep), 1e-7)
              << made.name << ", width " << width << ", " << examples << " examples, element " << i;
        }
      }
    }
  }
}

TEST(Embeddings, TheLossIsFiniteForLargeScores) {
  const PairModel made = factorisation(2);
  const SparseMatrix<double> sparse(made.rows, made.each, made.table);
  const std::vector<double> labels = made.labels<double>();
  const auto model = make_model<double>(made.name, made.factors);
  const Placement placement(model->variables(), Layout::separate);
  Gradients<double> gradients(placement, false);
  const auto pass = model->make_pass(1);
  for (const double size : {1e2, -1e2}) {
    std::vector<double> table(made.table * 2, 1e2);
    for (std::size_t i = 0; i < 6; ++i) table[i] = size;
    const Batch<double> batch{.images = {}, .labels = labels, .examples = 1, .sparse = &sparse};
    const double loss = pass->step(std::vector<const double*>{table.data()}, batch, gradients);
    EXPECT_NEAR(loss, size > 0 ? 2e4 : 0, 1e-9);  // the user dislikes the item, and the score is 2e4 or -2e4
  }
}

// Consistent reading and a lock, so that ThreadSanitizer finds no race that the contract allows.
TEST(Embeddings, WorkersShareTheSteps) {
  for (const PairModel& made : {factorisation(4), skipgram(4)}) {
    const std::vector<float> labels = made.labels<float>();
    const TrainingSet set = TrainingSet::of_features(made.rows, made.each, labels, made.table, made.classes);
    Trial trial(make_model<float>(made.name, made.factors),
                {.strategy = "spin", .workers = 3, .reading = ReadingOf::consistent, .full_measures = true});
    std::vector<float> table(made.table * made.width);
    std::mt19937 random(7);
    for (float& element : table) element = std::normal_distribution<float>(0, 0.1F)(random);
    trial.set_variables({table});
    const std::vector<std::int64_t> starts(300, 0);
    std::vector<double> losses(starts.size());
    trial.run({set, starts, 2}, 0.5F, losses);
    // The step that ended last has seen nearly all updates, whichever worker made it.
    EXPECT_LT(std::ranges::min(losses), 0.01) << made.name;
    for (int worker = 0; worker < 3; ++worker) EXPECT_EQ(trial.tracker().stats(worker, 0).updates(), 100);
    EXPECT_GT(trial.lost(0).expected, 0);
    EXPECT_EQ(trial.lost(0).lost, 0);
  }
}

TEST(Embeddings, WhatDoesNotFitIsRefused) {
  const PairModel made = skipgram(4);
  Trial trial(make_model<float>(made.name, made.factors), {.strategy = "lock"});
  const std::vector<std::int64_t> starts{0};
  const std::vector<std::int32_t> three{0, 5, 6};
  const std::vector<float> labels{1, 0, 0};
  const TrainingSet of_three = TrainingSet::of_features(three, 3, labels, made.table, made.classes);
  EXPECT_THROW(trial.run({of_three, starts, 1}, 0.5F, {}), std::invalid_argument);
  using Numbers = decltype(ModelFactors::numbers);
  for (const Numbers& numbers : {Numbers{}, Numbers{{"words", 5}, {"negatives", 2}},
                                 Numbers{{"words", 5}, {"negatives", 0}, {"width", 4}},
                                 Numbers{{"words", 5}, {"negatives", 2}, {"width", 4}, {"users", 1}}}) {
    EXPECT_THROW(make_model<float>("skipgram", {.matrix = 1, .numbers = numbers}), std::invalid_argument);
  }
  EXPECT_THROW(make_model<float>("mnist_softmax", {.matrix = 9, .numbers = {{"width", 4}}}),
               std::invalid_argument);
}

}  // namespace
}  // namespace tmflow::train
