// The hyperparameters of an optimiser from their text.
#include <charconv>
#include <cmath>
#include <set>
#include <string>
#include <string_view>

#include "tmflow/core/slots.hpp"

namespace tmflow {
namespace {

// Where the hyperparameter of that name is; null if there is none. For every optimiser.
template <class T>
T* member(Hyperparameters<T>& hyper, std::string_view name) {
  if (name == "momentum") return &hyper.momentum;
  if (name == "first_rate") return &hyper.first_rate;
  if (name == "second_rate") return &hyper.second_rate;
  return name == "epsilon" ? &hyper.epsilon : nullptr;
}

bool uses(Optimiser optimiser, std::string_view name) {
  const std::string used = ", " + std::string(hyperparameters_of(optimiser)) + ", ";
  return name.find(',') == name.npos && used.find(", " + std::string(name) + ", ") != used.npos;
}

}  // namespace

template <std::floating_point T>
Hyperparameters<T> parse_hyperparameters(Optimiser optimiser, std::span<const std::string> given) {
  auto hyper = Hyperparameters<T>::of(optimiser);
  std::set<std::string_view> seen;
  for (const std::string& assignment : given) {
    const std::size_t equals = assignment.find('=');
    const std::string_view name = std::string_view(assignment).substr(0, equals);
    T* const value = equals != assignment.npos && uses(optimiser, name) ? member(hyper, name) : nullptr;
    if (value == nullptr) {
      const std::string_view used = hyperparameters_of(optimiser);
      throw std::invalid_argument("'" + assignment + "' sets no hyperparameter of optimiser " +
                                  std::string(name_of(optimiser)) +
                                  "; allowed, as name=number: " + std::string(used.empty() ? "none" : used));
    }
    double number = 0;
    const char* const end = assignment.data() + assignment.size();
    const auto [stop, error] = std::from_chars(assignment.data() + equals + 1, end, number);
    if (error != std::errc() || stop != end || !std::isfinite(static_cast<T>(number)) || number < 0) {
      throw std::invalid_argument("hyperparameter '" + assignment + "' of optimiser " +
                                  std::string(name_of(optimiser)) + " must be a finite number from 0 on");
    }
    if (!seen.insert(name).second) {
      throw std::invalid_argument("hyperparameter '" + std::string(name) + "' is given twice");
    }
    *value = static_cast<T>(number);
  }
  return hyper;
}

template Hyperparameters<float> parse_hyperparameters(Optimiser, std::span<const std::string>);
template Hyperparameters<double> parse_hyperparameters(Optimiser, std::span<const std::string>);

}  // namespace tmflow
