#include "runner/mnist.hpp"

#include <algorithm>
#include <cstdlib>

#include "runner/errors.hpp"
#include "runner/files.hpp"
#include "runner/numpy_random.hpp"
#include "runner/sha256.hpp"

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeaderOfImages = 16, kHeaderOfLabels = 8;
constexpr const char* kRoles[] = {"train_images", "train_labels", "test_images", "test_labels"};

// The file of that name, with or without .gz; an empty path if neither exists.
fs::path file_in(const fs::path& folder, const std::string& name) {
  for (const fs::path& path : {folder / name, folder / (name + ".gz")}) {
    std::error_code unreadable;
    if (fs::is_regular_file(path, unreadable)) return path;
  }
  return {};
}

std::string unpacked(const fs::path& path) {
  try {
    return output_of({"gzip", "-dc", path.string()});
  } catch (const BadInput& error) {
    throw BadInput(path.string() + " cannot be decompressed: " + error.what() +
                   " Copy the file again, or decompress it on a machine with gzip and copy the result.");
  }
}

std::string content(const fs::path& folder, const Json& file, std::size_t header) {
  const std::string& name = file.at("name").text();
  const fs::path path = file_in(folder, name);
  std::string bytes = path.extension() == ".gz" ? unpacked(path) : read_file(path);
  const std::string found = sha256_hex(bytes);
  if (found != file.at("sha256").text()) {
    throw BadInput(path.string() + " is not the official " + name +
                   ": the SHA-256 of its uncompressed content is " + found + ", not " +
                   file.at("sha256").text() + ".");
  }
  bytes.erase(0, header);
  return bytes;
}

// The first `matrix` pixels of an image, rounded like a multiplication by 1/255 in float32.
void scale(const std::string& images, std::size_t image, std::size_t matrix, float* to) {
  constexpr float kUnit = static_cast<float>(1.0 / 255);
  const char* pixels = images.data() + image * Mnist::kPixels;
  for (std::size_t i = 0; i < matrix; ++i) {
    to[i] = static_cast<float>(static_cast<unsigned char>(pixels[i])) * kUnit;
  }
}

// The place in MNIST's training files of the image that has this place in the training set.
std::size_t image_at(std::int64_t place) { return Mnist::kValidation + static_cast<std::size_t>(place); }

std::vector<float> training_images(const Mnist& mnist, std::size_t matrix,
                                   const std::vector<std::int64_t>& order) {
  std::vector<float> images(order.size() * matrix);
  for (std::size_t i = 0; i < order.size(); ++i) {
    scale(mnist.train_images, image_at(order[i]), matrix, &images[i * matrix]);
  }
  return images;
}

std::vector<float> training_labels(const Mnist& mnist, const std::vector<std::int64_t>& order) {
  std::vector<float> labels(order.size() * Mnist::kClasses);
  for (std::size_t i = 0; i < order.size(); ++i) {
    labels[i * Mnist::kClasses + static_cast<std::size_t>(mnist.train_labels[image_at(order[i])])] = 1;
  }
  return labels;
}

}  // namespace

fs::path find_mnist(const Json& files, const std::optional<std::string>& given) {
  std::vector<fs::path> folders;
  const char* const named = std::getenv("TMFLOW_DATA_DIR");
  if (given || (named != nullptr && *named != '\0')) {
    const fs::path folder = given ? *given : named;
    folders = {folder / "mnist", folder};
  } else {
    folders = {fs::path("data") / "mnist"};
  }
  std::string looked;
  for (const fs::path& folder : folders) {
    const bool whole = std::ranges::all_of(
        kRoles, [&](const char* role) { return !file_in(folder, files.at(role).at("name").text()).empty(); });
    if (whole) return folder;
    looked += (looked.empty() ? "" : " or in ") + folder.string();
  }
  std::string names;
  for (const char* role : kRoles) names += (names.empty() ? "" : ", ") + files.at(role).at("name").text();
  throw BadInput("MNIST is not in " + looked + ": copy its four files there (" + names +
                 "; gzipped or not), or specify their folder with --data or TMFLOW_DATA_DIR.");
}

Mnist load_mnist(const fs::path& folder, const Json& files) {
  return {.train_images = content(folder, files.at("train_images"), kHeaderOfImages),
          .train_labels = content(folder, files.at("train_labels"), kHeaderOfLabels),
          .test_images = content(folder, files.at("test_images"), kHeaderOfImages),
          .test_labels = content(folder, files.at("test_labels"), kHeaderOfLabels)};
}

TrialData::TrialData(const Mnist& mnist, std::size_t matrix, std::uint32_t seed)
    : TrialData(mnist, matrix, NumpyRandom(seed, 0).permutation(Mnist::kTrain)) {}

TrialData::TrialData(const Mnist& mnist, std::size_t matrix, const std::vector<std::int64_t>& order)
    : train_images(training_images(mnist, matrix, order)),
      train_labels(training_labels(mnist, order)),
      training(train_images, train_labels, matrix, Mnist::kClasses),
      test_images(Mnist::kTest * matrix),
      test_digits(mnist.test_labels.begin(), mnist.test_labels.end()) {
  for (std::size_t i = 0; i < Mnist::kTest; ++i) {
    scale(mnist.test_images, i, matrix, &test_images[i * matrix]);
  }
}

std::vector<std::int64_t> batch_starts(std::uint32_t seed, std::size_t batch, std::size_t steps) {
  constexpr std::size_t images = Mnist::kTrain;
  if (batch > images) {
    throw Unsupported("a batch of " + std::to_string(batch) + " does not fit a training set of " +
                      std::to_string(images) + " images");
  }
  const std::size_t per_epoch = std::max<std::size_t>((images - batch) / batch, 1);
  NumpyRandom random(seed, 1);
  std::vector<std::int64_t> starts;
  while (starts.size() < steps) {
    const auto offsets = static_cast<std::uint32_t>(std::min(batch, images - batch + 1));
    const std::int64_t offset = random.integers(offsets);
    for (const std::int64_t place : random.permutation(static_cast<std::uint32_t>(per_epoch))) {
      starts.push_back(offset + static_cast<std::int64_t>(batch) * place);
    }
  }
  starts.resize(steps);
  return starts;
}

}  // namespace tmflow::runner
