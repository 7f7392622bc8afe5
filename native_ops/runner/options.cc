#include "runner/options.hpp"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "runner/errors.hpp"

namespace tmflow::runner {
namespace {

std::string joined(const std::vector<std::string>& words, const std::string& before = "") {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : ", ") + before + word;
  return all.empty() ? "none" : all;
}

bool among(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::count(words, word) > 0;
}

int checked(const std::string& name, const std::string& word, int low, int high) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc() || end != word.data() + word.size() || number < low || number > high) {
    throw BadInput(name + " is '" + word + "', but should be a whole number from " + std::to_string(low) +
                   " to " + std::to_string(high) + ".");
  }
  return number;
}

}  // namespace

Options::Options(const std::vector<std::string>& arguments, const std::vector<std::string>& valued,
                 const std::vector<std::string>& flags) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const std::size_t equals = argument.find('=');
    const std::string name = argument.starts_with("--") ? argument.substr(2, equals - 2) : "";
    const bool has_value = equals != argument.npos;
    if (!among(valued, name) && (!among(flags, name) || has_value)) {
      std::vector<std::string> valid = valued;
      valid.insert(valid.end(), flags.begin(), flags.end());
      throw BadInput("unknown option '" + argument + "'; valid: " + joined(valid, "--") + ".");
    }
    std::string value;
    if (has_value) {
      value = argument.substr(equals + 1);
    } else if (among(valued, name)) {
      if (++i == arguments.size()) throw BadInput("option '" + argument + "' needs a value.");
      value = arguments[i];
    }
    if (!given_.emplace(name, value).second) throw BadInput("option '--" + name + "' is given twice.");
  }
}

std::optional<std::string> Options::value(const std::string& name) const {
  const auto found = given_.find(name);
  return found == given_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> Options::list(const std::string& name, const std::string& fallback) const {
  std::istringstream text(value(name).value_or(fallback));
  std::vector<std::string> words;
  for (std::string word; std::getline(text, word, ',');) words.push_back(word);
  if (words.empty() && has(name)) words.emplace_back();  // given but empty: one empty word is on no list
  return words;
}

std::vector<int> Options::numbers(const std::string& name, const std::string& fallback, int low,
                                  int high) const {
  std::vector<int> found;
  for (const std::string& word : list(name, fallback)) found.push_back(checked(name, word, low, high));
  return found;
}

int Options::number(const std::string& name, int fallback, int low, int high) const {
  const auto given = value(name);
  return given ? checked(name, *given, low, high) : fallback;
}

double Options::seconds(const std::string& name, double fallback) const {
  const auto given = value(name);
  if (!given) return fallback;
  double number = 0;
  const auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), number);
  if (error != std::errc() || end != given->data() + given->size() || !(number > 0 && number < 1e9)) {
    throw BadInput(name + " is '" + *given + "', but should be a number of seconds above 0.");
  }
  return number;
}

std::string Options::one_of(const std::string& name, const std::vector<std::string>& words) const {
  const std::string given = value(name).value_or(words.front());
  if (!among(words, given)) throw BadInput(name + " is '" + given + "'; valid: " + joined(words) + ".");
  return given;
}

}  // namespace tmflow::runner
