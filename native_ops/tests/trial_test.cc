// A trial of the native driver: an exception of a worker reaches the caller, and all workers end.
#include "tmflow/train/trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tmflow/train/models.hpp"

namespace tmflow::train {
namespace {

constexpr std::size_t kPixels = 30, kImages = 40;

struct Data {
  std::vector<float> images = std::vector<float>(kPixels * kImages, 0.5F);
  std::vector<float> labels = std::vector<float>(10 * kImages, 0.1F);
  std::vector<std::int64_t> starts = std::vector<std::int64_t>(100, 3);

  TrainingSet set() const { return {images, labels, kPixels, 10}; }
};

// Consistent reading and a lock, so that ThreadSanitizer finds no race that the contract allows.
TEST(Trial, WorkersShareTheStepsUnderEveryLayout) {
  const Data data;
  const TrainingSet set = data.set();
  for (const Layout layout : {Layout::separate, Layout::joined}) {
    for (const bool full : {false, true}) {
      Trial trial(make_model<float>("mnist_softmax", {.matrix = kPixels}), {.strategy = "lock_pthread",
                                                                            .workers = 3,
                                                                            .layout = layout,
                                                                            .reading = ReadingOf::consistent,
                                                                            .pinned = true,
                                                                            .full_measures = full});
      std::vector<double> losses(data.starts.size());
      EXPECT_GT(trial.run({set, data.starts, 4}, 0.1F, losses), 0);
      for (const double loss : losses) EXPECT_GT(loss, 0);
      for (int worker = 0; worker < 3; ++worker) {
        EXPECT_EQ(trial.tracker().stats(worker, 0).updates(), worker == 0 ? 34 : 33);
      }
      if (full) {
        EXPECT_EQ(trial.lost(0).lost, 0);
      }
    }
  }
}

// Images of which most pixels are zero are listed; others are not.
TEST(TrainingSet, ListsThePixelsThatAreNotZero) {
  std::vector<float> images(4 * 5);
  images[1 * 4 + 2] = 0.5F;
  images[3 * 4 + 0] = 1;
  images[3 * 4 + 3] = -0.25F;
  const std::vector<float> labels(5 * 2);
  const TrainingSet sparse(images, labels, 4, 2);
  const Batch<float> batch = sparse.batch(1, 3);
  ASSERT_NE(batch.sparse, nullptr);
  ASSERT_EQ(batch.nonzero(0).size(), 1u);
  EXPECT_EQ(batch.nonzero(0)[0].row, 2u);
  EXPECT_EQ(batch.nonzero(0)[0].value, 0.5F);
  EXPECT_TRUE(batch.nonzero(1).empty());
  ASSERT_EQ(batch.nonzero(2).size(), 2u);
  EXPECT_EQ(batch.nonzero(2)[1].row, 3u);
  EXPECT_EQ(batch.nonzero(2)[1].value, -0.25F);
  EXPECT_EQ(batch.images.data(), images.data() + 4);

  std::fill(images.begin(), images.begin() + 11, 1.0F);  // more than half
  EXPECT_EQ(TrainingSet(images, labels, 4, 2).batch(0, 1).sparse, nullptr);
}

// The steps are the same, to the order of the additions, whether the pixels are listed or not.
TEST(Trial, ListedPixelsTrainAsOthersDo) {
  std::vector<float> images(kPixels * kImages);
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = i % 3 == 0 ? static_cast<float>(i % 7) / 7 : 0;
  std::vector<float> crowded = images;
  for (float& pixel : crowded)
    pixel = pixel == 0 ? std::numeric_limits<float>::min() : pixel;  // too small to matter
  std::vector<float> labels(10 * kImages);
  for (std::size_t i = 0; i < kImages; ++i) labels[i * 10 + i % 10] = 1;
  std::vector<std::int64_t> starts;
  for (std::int64_t i = 0; i < 60; ++i) starts.push_back(i % 30);
  const TrainingSet listed(images, labels, kPixels, 10), all(crowded, labels, kPixels, 10);
  ASSERT_NE(listed.batch(0, 1).sparse, nullptr);
  ASSERT_EQ(all.batch(0, 1).sparse, nullptr);
  for (const char* const kernel : {"kernel=plain", "kernel=fused"}) {
    for (const std::size_t batch : {1, 4}) {
      std::vector<std::vector<double>> losses;
      for (const TrainingSet* const set : {&listed, &all}) {
        Trial trial(make_model<float>("mnist_softmax", {.matrix = kPixels}),
                    {.strategy = "striped", .parameters = {kernel, "block=64"}});
        losses.emplace_back(starts.size());
        trial.run({*set, starts, batch}, 0.5F, losses.back());
      }
      for (std::size_t i = 0; i < starts.size(); ++i) {
        ASSERT_NEAR(losses[0][i], losses[1][i], 1e-4) << kernel << ", batch " << batch << ", step " << i;
      }
      EXPECT_NE(losses[0].back(), losses[0].front());
    }
  }
}

// One variable; a pass throws at an image that is marked by its first pixel.
class Throwing final : public Model<float> {
 public:
  std::vector<VariableShape> variables() const override { return {{"v", 1, 10}}; }
  std::size_t pixels() const override { return kPixels; }
  std::size_t classes() const override { return 10; }
  std::unique_ptr<Pass<float>> make_pass(std::size_t) const override { return std::make_unique<Once>(); }

 private:
  struct Once final : Pass<float> {
    float step(std::span<const float* const>, const Batch<float>& batch, Gradients<float>&) override {
      if (batch.images[0] < 0) throw std::runtime_error("marked");
      return 1;
    }
  };
};

TEST(Trial, WhatAWorkerThrowsArrivesWhenAllHaveEnded) {
  Data data;
  data.images[5 * kPixels] = -1;
  data.starts[31] = 5;  // the 11th batch of worker 1
  Trial trial(std::make_unique<Throwing>(), {.strategy = "lock", .workers = 3});
  const TrainingSet set = data.set();
  EXPECT_THROW(trial.run({set, data.starts, 4}, 0.1F, {}), std::runtime_error);
  EXPECT_EQ(trial.tracker().stats(0, 0).updates(), 34);
  EXPECT_EQ(trial.tracker().stats(1, 0).updates(), 10);
  EXPECT_EQ(trial.tracker().stats(2, 0).updates(), 33);
}

TEST(Trial, DataThatDoesNotFitIsRefused) {
  const Data data;
  Trial trial(make_model<float>("mnist_softmax", {.matrix = kPixels}), {.strategy = "lock", .workers = 2});
  std::vector<double> losses(99);
  const TrainingSet set = data.set(), others(data.images, data.labels, kPixels / 2, 5);
  EXPECT_THROW(trial.run({set, data.starts, 41}, 0.1F, {}), std::invalid_argument);
  EXPECT_THROW(trial.run({set, data.starts, 38}, 0.1F, {}), std::invalid_argument);
  EXPECT_THROW(trial.run({set, data.starts, 4}, 0.1F, losses), std::invalid_argument);
  EXPECT_THROW(trial.run({others, data.starts, 4}, 0.1F, {}), std::invalid_argument);
  EXPECT_THROW(TrainingSet(data.images, data.labels, kPixels, 9), std::invalid_argument);
  EXPECT_THROW(TrainingSet({}, {}, kPixels, 10), std::invalid_argument);
  EXPECT_THROW(trial.lost(0), std::invalid_argument);
  EXPECT_EQ(trial.tracker().stats(0, 0).updates(), 0);
}

}  // namespace
}  // namespace tmflow::train
