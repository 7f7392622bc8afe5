// Logistic regression on examples that have a few of many features: its gradient, its trials, and its data.
#include "tmflow/train/sparse_regression.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/train/models.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::train {
namespace {

// Memory of all sizes is usable from its first to its last element, and large memory begins a page.
TEST(LargePages, HoldSmallAndLargeArrays) {
  constexpr std::size_t kLarge = std::size_t{8} << 20;
  for (const std::size_t bytes : {std::size_t{1}, kLarge - 1, kLarge, kLarge + 1}) {
    std::vector<char, LargePages<char>> memory(bytes, 'x');
    memory.front() = memory.back() = 'y';
    if (bytes >= kLarge) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % (std::uintptr_t{1} << 21), 0U);
    }
    EXPECT_EQ(std::ranges::count(memory, 'y'), bytes == 1 ? 1 : 2);
    memory.resize(bytes + kLarge, 'z');
    EXPECT_EQ(std::ranges::count(memory, 'z'), static_cast<std::ptrdiff_t>(kLarge));
    EXPECT_EQ(memory[bytes - 1], 'y');
  }
}

constexpr std::size_t kFeatures = 12, kEach = 3, kWidth = 5, kExamples = 8;

// The first example has feature 0 as others have, so batches have rows in common.
std::vector<std::int32_t> features_of_examples() {
  std::vector<std::int32_t> features;
  for (std::int32_t e = 0; e < static_cast<std::int32_t>(kExamples); ++e) {
    for (const std::int32_t feature : {(5 * e) % 11 + 1, (5 * e + 3) % 11 + 1, 0})
      features.push_back(feature);
  }
  return features;
}

template <class T>
std::vector<T> labels_of_examples() {
  std::vector<T> labels(kExamples * kWidth);
  for (std::size_t e = 0; e < kExamples; ++e) labels[e * kWidth + e % kWidth] = 1;
  return labels;
}

TEST(SparseRegression, ItsGradientIsThatOfTheLossInEveryRowThatTheBatchHas) {
  const auto features = features_of_examples();
  const SparseMatrix<double> sparse(features, kEach, kFeatures);
  const auto labels = labels_of_examples<double>();
  for (const std::size_t examples : {1, 2, 8}) {
    const auto model = make_model<double>(
        "sparse_logistic", {.matrix = 1, .numbers = {{"features", kFeatures}, {"width", kWidth}}});
    const Placement placement(model->variables(), Layout::separate);
    Gradients<double> gradients(placement, false);
    const auto pass = model->make_pass(examples);
    std::vector<double> weights(kFeatures * kWidth);
    std::mt19937 random(7);
    for (double& weight : weights) weight = std::normal_distribution<double>()(random);
    const Batch<double> batch{.images = {}, .labels = labels, .examples = examples, .sparse = &sparse};
    const auto loss = [&] {
      return pass->step(std::vector<const double*>{weights.data()}, batch, gradients);
    };

    loss();
    const RowGradient<double> gradient = *gradients.update(0, 1.0).rows;
    EXPECT_EQ(gradient.elements, weights.size());
    std::vector<double> written(weights.size());
    gradient.for_each_part(0, weights.size(), [&](std::size_t begin, std::size_t n, const double* values) {
      std::copy_n(values, n, written.begin() + static_cast<std::ptrdiff_t>(begin));
    });
    EXPECT_LE(gradient.rows.size(), 1 + 2 * examples);
    EXPECT_EQ(gradient.rows.front(), 0);
    constexpr double kStep = 1e-6;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const double before = weights[i];
      weights[i] = before + kStep;
      const double above = loss();
      weights[i] = before - kStep;
      const double below = loss();
      weights[i] = before;
      ASSERT_NEAR(written[i], (above - below) / (2 * kStep), 1e-7) << examples << " examples, element " << i;
    }
  }
}

struct FeatureSet {
  std::vector<std::int32_t> features = features_of_examples();
  std::vector<float> labels = labels_of_examples<float>();
  std::vector<std::int64_t> starts = std::vector<std::int64_t>(90, 2);

  TrainingSet set() const { return TrainingSet::of_features(features, kEach, labels, kFeatures, kWidth); }
};

Trial trial_of(const TrialPlan& plan) {
  return {make_model<float>("sparse_logistic",
                            {.matrix = 1, .numbers = {{"features", kFeatures}, {"width", kWidth}}}),
          plan};
}

// Consistent reading and a lock, so that ThreadSanitizer finds no race that the contract allows.
TEST(SparseRegression, WorkersShareTheSteps) {
  const FeatureSet data;
  const TrainingSet set = data.set();
  Trial trial = trial_of({.strategy = "spin", .workers = 3, .reading = ReadingOf::consistent});
  std::vector<double> losses(data.starts.size());
  trial.run({set, data.starts, 4}, 0.5F, losses);
  EXPECT_LT(losses.back(), 0.5);  // log 5 before the first update
  for (int worker = 0; worker < 3; ++worker) EXPECT_EQ(trial.tracker().stats(worker, 0).updates(), 30);
  const std::span<const float> weights = trial.variable(0);
  for (const std::size_t feature : {1, 6, 9}) {  // no example of the batch has one of them
    for (std::size_t c = 0; c < kWidth; ++c) EXPECT_EQ(weights[feature * kWidth + c], 0) << feature;
  }
}

TEST(SparseRegression, OneRegionForAllVariablesIsRefused) {
  EXPECT_THROW(trial_of({.strategy = "lock", .layout = Layout::joined}), std::invalid_argument);
}

TEST(SparseRegression, LostUpdatesOfRowsAreCounted) {
  const FeatureSet data;
  const TrainingSet set = data.set();
  // The batch has 9 rows: those of 4 examples, of which all have feature 0.
  for (const TrialPlan& plan :
       {TrialPlan{.strategy = "spin"}, TrialPlan{.strategy = "striped", .parameters = {"block=5"}},
        TrialPlan{.strategy = "striped", .parameters = {"block=7"}}, TrialPlan{.strategy = "atomic"}}) {
    TrialPlan full = plan;
    const bool has_snapshots = plan.strategy != "atomic";  // without them other workers' reads would be races
    full.workers = has_snapshots ? 3 : 1;
    full.full_measures = true;
    full.reading = has_snapshots ? ReadingOf::consistent : ReadingOf::plain;
    Trial trial = trial_of(full);
    trial.run({set, data.starts, 4}, 0.5F, {});
    EXPECT_EQ(trial.lost(0).expected, 90 * 9 * 5) << plan.strategy;
    EXPECT_EQ(trial.lost(0).lost, 0) << plan.strategy;
    EXPECT_FALSE(trial.reports_torn_reads(0));
  }
}

// A watched read copies the rows that the pass then reads: the losses are those of an unwatched one.
TEST(SparseRegression, TornReadsOfRowsAreCountedIfReadsArePlain) {
  const FeatureSet data;
  const TrainingSet set = data.set();
  for (const char* strategy : {"nolock", "spin", "striped", "block_stm", "combining"}) {
    std::vector<double> usual(data.starts.size()), full(data.starts.size());
    trial_of({.strategy = strategy}).run({set, data.starts, 4}, 0.5F, usual);
    Trial trial = trial_of({.strategy = strategy, .full_measures = true});
    trial.run({set, data.starts, 4}, 0.5F, full);
    EXPECT_EQ(usual, full) << strategy;
    ASSERT_TRUE(trial.reports_torn_reads(0)) << strategy;
    EXPECT_EQ(trial.tracker().stats(0, 0).reads(), 90) << strategy;
    EXPECT_EQ(trial.tracker().stats(0, 0).torn(), 0) << strategy;
  }
}

TEST(SparseRegression, FeaturesHaveValuesAndThoseOfZeroAreAbsent) {
  const std::vector<std::int32_t> places{7, 2, 4, 4, 5, 5};
  const std::vector<float> values{0.5F, -2.0F, 0.0F, 3.0F, 0.0F, 0.0F};
  const SparseMatrix<float> sparse(places, 2, 8, values);
  const auto row = [&](std::size_t number) {
    std::vector<std::pair<std::uint32_t, float>> numbers;
    for (const NonZero<float>& one : sparse.row(number)) numbers.emplace_back(one.row, one.value);
    return numbers;
  };
  EXPECT_EQ(row(0), (std::vector<std::pair<std::uint32_t, float>>{{2, -2.0F}, {7, 0.5F}}));
  EXPECT_EQ(row(1), (std::vector<std::pair<std::uint32_t, float>>{{4, 3.0F}}));
  EXPECT_TRUE(row(2).empty());

  // A step on an example without features changes nothing.
  const std::vector<float> labels{1, 0, 0, 1, 1, 0};
  const TrainingSet set = TrainingSet::of_features(places, 2, labels, 8, 2, values);
  for (const char* strategy : {"lock", "striped", "block_stm", "combining", "atomic", "nolock", "htm"}) {
    if (listed_strategy(strategy).why_not) continue;
    Trial trial(
        make_model<float>("sparse_logistic", {.matrix = 1, .numbers = {{"features", 8}, {"width", 2}}}),
        {.strategy = strategy});
    trial.run({set, std::vector<std::int64_t>{2}, 1}, 0.5F, {});
    for (const float weight : trial.variable(0)) EXPECT_EQ(weight, 0) << strategy;
    trial.run({set, std::vector<std::int64_t>{0}, 1}, 0.5F, {});
    // Both scores are 0, so the gradient of a score is the value times +-1/2.
    EXPECT_FLOAT_EQ(trial.variable(0)[2 * 2], 0.5F * -2.0F / 2) << strategy;
    EXPECT_FLOAT_EQ(trial.variable(0)[7 * 2 + 1], -0.5F * 0.5F / 2) << strategy;
  }
  EXPECT_THROW(TrainingSet::of_features(places, 2, labels, 8, 2, std::span(values).first(4)),
               std::invalid_argument);
}

TEST(SparseRegression, DataThatDoesNotFitIsRefused) {
  const FeatureSet data;
  const TrainingSet set = data.set();
  EXPECT_EQ(set.size(), kExamples);
  EXPECT_EQ(set.pixels(), kFeatures);
  Trial of_images(make_model<float>("mnist_softmax", {.matrix = kFeatures}), {.strategy = "lock"});
  const std::vector<float> of_ten(kExamples * 10);  // the same numbers of examples, inputs and classes
  const TrainingSet listed = TrainingSet::of_features(data.features, kEach, of_ten, kFeatures, 10);
  EXPECT_THROW(of_images.run({listed, data.starts, 4}, 0.1F, {}), std::invalid_argument);
  const std::vector<float> images(kExamples * kFeatures);
  Trial trial = trial_of({.strategy = "lock"});
  EXPECT_THROW(trial.run({{images, data.labels, kFeatures, kWidth}, data.starts, 4}, 0.1F, {}),
               std::invalid_argument);

  const auto refused = [&](const std::vector<std::int32_t>& features, std::size_t each) {
    EXPECT_THROW(TrainingSet::of_features(features, each, data.labels, kFeatures, kWidth),
                 std::invalid_argument);
  };
  for (const std::int32_t wrong : {-1, 12, 5}) {
    std::vector<std::int32_t> features = data.features;
    features[4] = features[3] = wrong;  // outside, or twice
    refused(features, kEach);
  }
  refused(data.features, 0);
  refused(data.features, 2);
  refused({}, 1);
  EXPECT_THROW(TrainingSet::of_features(data.features, kEach, {}, kFeatures, 0), std::invalid_argument);
  EXPECT_THROW(TrainingSet::of_features(data.features, kEach, data.labels, 0, kWidth), std::invalid_argument);
}

}  // namespace
}  // namespace tmflow::train
