// The results of a part of the probe: a value for each name, or null with the reason.
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "tmflow/format/json.hpp"

namespace tmflow::probe {

// Why a quantity has no value: one sentence.
class NotMeasured : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A measured number, rounded to its four significant digits.
inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

class Findings {
 public:
  // Stores the result of `measure` under the name and returns it. On NotMeasured it stores null with the
  // reason and returns nullopt.
  template <class Measure, class Value = std::invoke_result_t<Measure>>
  std::optional<Value> find(const std::string& name, const Measure& measure) {
    try {
      Value value = measure();
      if constexpr (std::same_as<Value, double>) {
        found_[name] = rounded(value);
      } else {
        found_[name] = value;
      }
      return value;
    } catch (const NotMeasured& reason) {
      found_[name] = Json();
      why_[name] = reason.what();
      return std::nullopt;
    }
  }

  void set(const std::string& name, Json value) { found_[name] = std::move(value); }

  Json json() const {
    Json::Object all = found_;
    all["why"] = why_;
    return all;
  }

 private:
  Json::Object found_, why_;
};

// A quantity that another measurement needs; throws NotMeasured if it has no value.
template <class T>
const T& needed(const std::optional<T>& value, const char* what) {
  if (!value) throw NotMeasured(std::string(what) + " is needed first, and was not measured");
  return *value;
}

}  // namespace tmflow::probe
