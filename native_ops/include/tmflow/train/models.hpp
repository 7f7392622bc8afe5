// The models of the native driver, by name.
#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tmflow/train/model.hpp"

namespace tmflow::train {

// The factors of a model besides its name; nullopt if not given.
struct ModelFactors {
  std::size_t matrix;  // pixels of an image
  std::optional<std::size_t> hidden = {};
  std::optional<std::string_view> activation = {};
  // Of a model whose steps update rows, by name.
  std::map<std::string, std::size_t, std::less<>> numbers = {};
};

// Throws std::invalid_argument for an unknown model, and for factors that are unknown to it, missing or out
// of range.
template <std::floating_point T>
std::unique_ptr<const Model<T>> make_model(std::string_view name, const ModelFactors& factors);

}  // namespace tmflow::train
