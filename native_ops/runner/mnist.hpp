// MNIST: found, verified, and in the order in which a trial sees it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// The bytes of the files after their headers: a byte per pixel, a byte per label. The first 5,000 images of
// the training files are for validation, as TensorFlow 1's tutorial had it.
struct Mnist {
  static constexpr std::size_t kPixels = 784, kClasses = 10, kValidation = 5000, kTrain = 55000,
                               kTest = 10000;

  std::string train_images, train_labels, test_images, test_labels;
};

// The folder that holds all files of MNIST, gzipped or not: `given`, else $TMFLOW_DATA_DIR, else data/mnist
// here; of the first two also their folder `mnist`. `files`: by role what the files are, as the plan has it.
// Throws BadInput saying where it looked.
std::filesystem::path find_mnist(const Json& files, const std::optional<std::string>& given);

// Its files, each bit for bit the official one. Throws BadInput naming the first that is not.
Mnist load_mnist(const std::filesystem::path& folder, const Json& files);

// The images of a trial: the training set permuted by the trial's seed, and the first `matrix` pixels of each
// image, from 0 to 1.
struct TrialData {
  TrialData(const Mnist& mnist, std::size_t matrix, std::uint32_t seed);

  std::vector<float> train_images, train_labels;  // [55000, matrix], one-hot [55000, 10]
  std::vector<float> test_images;                 // [10000, matrix]
  std::vector<int> test_digits;
};

// First image of each of the trial's `steps` batches in the permuted set: src/tmflow/training/batches.py.
// Throws Unsupported where the training set is smaller than a batch.
std::vector<std::int64_t> batch_starts(std::uint32_t seed, std::size_t batch, std::size_t steps);

}  // namespace tmflow::runner
