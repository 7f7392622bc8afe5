// The options of a command: `--name value`, `--name=value`, or `--name` alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tmflow::runner {

class Options {
 public:
  // `valued` take a value, `flags` do not. Throws BadInput, naming those that there are, for another one, for
  // one without its value, and for one given twice.
  Options(const std::vector<std::string>& arguments, const std::vector<std::string>& valued,
          const std::vector<std::string>& flags);

  bool has(const std::string& name) const { return given_.contains(name); }
  std::optional<std::string> value(const std::string& name) const;

  // The words of a list with commas; those of `fallback` if it is not given.
  std::vector<std::string> list(const std::string& name, const std::string& fallback = "") const;
  // Whole numbers from `low` to `high`; throws BadInput for anything else.
  std::vector<int> numbers(const std::string& name, const std::string& fallback, int low, int high) const;
  int number(const std::string& name, int fallback, int low, int high) const;
  // A number above 0, in seconds.
  double seconds(const std::string& name, double fallback) const;
  // One of the words; throws BadInput for another one.
  std::string one_of(const std::string& name, const std::vector<std::string>& words) const;

 private:
  std::map<std::string, std::string> given_;
};

}  // namespace tmflow::runner
