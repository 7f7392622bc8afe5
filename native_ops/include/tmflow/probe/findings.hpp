// What a part of the probe found: a value for each name, or null and why there is none.
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

// A measured number, to the four digits that it is worth.
inline double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10, 3 - std::floor(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

class Findings {
 public:
  // Keeps, under the name, what `measure` returns, and returns it too: nothing where it throws NotMeasured.
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

// What another quantity is measured with.
template <class T>
const T& needed(const std::optional<T>& value, const char* what) {
  if (!value) throw NotMeasured(std::string(what) + " would have to be known first");
  return *value;
}

}  // namespace tmflow::probe
