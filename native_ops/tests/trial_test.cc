// A trial of the native driver: an exception of a worker reaches the caller, and all workers end.
#include "tmflow/train/trial.hpp"

#include <gtest/gtest.h>

#include <cstdint>
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

  TrainingData of_batch(std::size_t batch) const {
    return {.images = images, .labels = labels, .starts = starts, .batch = batch};
  }
};

// Consistent reading and a lock, so that ThreadSanitizer finds no race that the contract allows.
TEST(Trial, WorkersShareTheStepsUnderEveryLayout) {
  const Data data;
  for (const Layout layout : {Layout::separate, Layout::joined}) {
    for (const bool full : {false, true}) {
      Trial trial(make_model<float>("mnist_softmax", {.matrix = kPixels}), {.strategy = "lock_pthread",
                                                                            .workers = 3,
                                                                            .layout = layout,
                                                                            .reading = ReadingOf::consistent,
                                                                            .pinned = true,
                                                                            .full_measures = full});
      std::vector<double> losses(data.starts.size());
      EXPECT_GT(trial.run(data.of_batch(4), 0.1F, losses), 0);
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

// One variable; a pass throws at an image that is marked by its first pixel.
class Throwing final : public Model<float> {
 public:
  std::vector<VariableShape> variables() const override { return {{"v", 1, 10}}; }
  std::size_t pixels() const override { return kPixels; }
  std::size_t classes() const override { return 10; }
  std::unique_ptr<Pass<float>> make_pass(std::size_t) const override { return std::make_unique<Once>(); }

 private:
  struct Once final : Pass<float> {
    float step(std::span<const float* const>, std::span<const float> images, std::span<const float>,
               std::size_t, Gradients<float>&) override {
      if (images[0] < 0) throw std::runtime_error("marked");
      return 1;
    }
  };
};

TEST(Trial, WhatAWorkerThrowsArrivesWhenAllHaveEnded) {
  Data data;
  data.images[5 * kPixels] = -1;
  data.starts[31] = 5;  // the 11th batch of worker 1
  Trial trial(std::make_unique<Throwing>(), {.strategy = "lock", .workers = 3});
  EXPECT_THROW(trial.run(data.of_batch(4), 0.1F, {}), std::runtime_error);
  EXPECT_EQ(trial.tracker().stats(0, 0).updates(), 34);
  EXPECT_EQ(trial.tracker().stats(1, 0).updates(), 10);
  EXPECT_EQ(trial.tracker().stats(2, 0).updates(), 33);
}

TEST(Trial, DataThatDoesNotFitIsRefused) {
  const Data data;
  Trial trial(make_model<float>("mnist_softmax", {.matrix = kPixels}), {.strategy = "lock", .workers = 2});
  std::vector<double> losses(99);
  EXPECT_THROW(trial.run(data.of_batch(41), 0.1F, {}), std::invalid_argument);
  EXPECT_THROW(trial.run(data.of_batch(38), 0.1F, {}), std::invalid_argument);
  EXPECT_THROW(trial.run(data.of_batch(4), 0.1F, losses), std::invalid_argument);
  EXPECT_THROW(trial.lost(0), std::invalid_argument);
  EXPECT_EQ(trial.tracker().stats(0, 0).updates(), 0);
}

}  // namespace
}  // namespace tmflow::train
