// The parameters of a strategy: their definitions, and their values.
#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tmflow {

// A parameter: one of several words, a text that a function checks, or an integer from `low` to `high`.
struct Parameter {
  std::string_view name;
  std::string_view fallback;  // the default value
  std::string_view summary;
  std::string_view choices = "";  // "one, another"
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::string_view text = "";                 // description of a valid text
  void (*check)(std::string_view) = nullptr;  // checks a text: throws std::invalid_argument with the reason

  std::string allowed() const {
    if (check != nullptr) return std::string(text);
    return choices.empty() ? std::to_string(low) + " to " + std::to_string(high) : std::string(choices);
  }

  bool allows(std::string_view value) const {
    if (check != nullptr) {
      check(value);
      return true;
    }
    if (choices.empty()) {
      std::int64_t number = 0;
      const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
      return error == std::errc() && end == value.data() + value.size() && low <= number && number <= high;
    }
    const std::string words = ", " + std::string(choices) + ", ";
    return !value.empty() && value.find(',') == value.npos &&
           words.find(", " + std::string(value) + ", ") != words.npos;
  }
};

// The values of a strategy's parameters: those given as "name=value", and the defaults of the others.
class Parameters {
 public:
  // Throws std::invalid_argument for a parameter that is not `known`, is given twice, or has an invalid
  // value.
  Parameters(std::string_view strategy, std::span<const Parameter> known,
             std::span<const std::string> given) {
    for (const std::string& assignment : given) set(strategy, known, assignment);
    for (const Parameter& parameter : known) values_.emplace(parameter.name, parameter.fallback);
  }

  using Values = std::map<std::string, std::string, std::less<>>;

  // Of all parameters, by name: independent of how they were written.
  const Values& values() const { return values_; }
  const std::string& text(std::string_view name) const { return values_.find(name)->second; }
  std::int64_t integer(std::string_view name) const { return std::stoll(text(name)); }

 private:
  void set(std::string_view strategy, std::span<const Parameter> known, std::string_view assignment) {
    const std::size_t equals = assignment.find('=');
    if (equals == assignment.npos) {
      throw std::invalid_argument("parameter '" + std::string(assignment) +
                                  "' is not of the form name=value");
    }
    const std::string_view name = assignment.substr(0, equals), value = assignment.substr(equals + 1);
    for (const Parameter& parameter : known) {
      if (parameter.name != name) continue;
      if (!parameter.allows(value)) {
        throw std::invalid_argument(std::string(name) + " of strategy '" + std::string(strategy) + "' is '" +
                                    std::string(value) + "'; allowed: " + parameter.allowed());
      }
      if (!values_.emplace(name, value).second) {
        throw std::invalid_argument("parameter '" + std::string(name) + "' is given twice");
      }
      return;
    }
    std::string valid;
    for (const Parameter& parameter : known) valid.append(valid.empty() ? "" : ", ").append(parameter.name);
    throw std::invalid_argument("strategy '" + std::string(strategy) + "' has no parameter '" +
                                std::string(name) + "'; it has: " + (valid.empty() ? "none" : valid));
  }

  Values values_;
};

}  // namespace tmflow
