// MNIST: finding and verifying it, and the order in which a trial reads it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tmflow/format/json.hpp"
#include "tmflow/train/training_set.hpp"

namespace tmflow::runner {

// The bytes of the files without their headers: a byte per pixel, a byte per label. The first 5,000 images of
// the training files are for validation, as in TensorFlow 1's tutorial.
struct Mnist {
  static constexpr std::size_t kPixels = 784, kClasses = 10, kValidation = 5000, kTrain = 55000,
                               kTest = 10000;

  std::string train_images, train_labels, test_images, test_labels;
};

// The folder that holds all files of MNIST, gzipped or not: `given`, else $TMFLOW_DATA_DIR, else data/mnist
// here. The folder `mnist` inside one of the first two is also tried. `files`: the files by role, as in the
// plan. Throws BadInput with the places searched.
std::filesystem::path find_mnist(const Json& files, const std::optional<std::string>& given);

// Loads the files and checks that each equals the official one. Throws BadInput with the first that does not.
Mnist load_mnist(const std::filesystem::path& folder, const Json& files);

// The images of a trial: the training set permuted by the trial's seed, and the first `matrix` pixels of each
// image, scaled to 0 to 1.
struct TrialData {
  TrialData(const Mnist& mnist, std::size_t matrix, std::uint32_t seed);
  TrialData(const TrialData&) = delete;  // `training` refers to the vectors

  const std::vector<float> train_images, train_labels;  // [55000, matrix], one-hot [55000, 10]
  const train::TrainingSet training;                    // over both
  std::vector<float> test_images;                       // [10000, matrix]
  std::vector<int> test_digits;

 private:
  // `order`: the places in the training set, in the order of the trial.
  TrialData(const Mnist& mnist, std::size_t matrix, const std::vector<std::int64_t>& order);
};

// The first image of each of the trial's `steps` batches in the permuted set, as in
// src/tmflow/training/data.py. Throws Unsupported if the training set is smaller than a batch.
std::vector<std::int64_t> batch_starts(std::uint32_t seed, std::size_t batch, std::size_t steps);

}  // namespace tmflow::runner
