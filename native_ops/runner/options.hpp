// The options of a command: `--name value`, `--name=value`, or `--name` alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tmflow::runner {

class Options {
 public:
  // `valued` take a value, `flags` do not. Throws BadInput for an unknown option (with the known ones), for a
  // missing value, and for an option given twice.
  Options(const std::vector<std::string>& arguments, const std::vector<std::string>& valued,
          const std::vector<std::string>& flags);

  bool has(const std::string& name) const { return given_.contains(name); }
  std::optional<std::string> value(const std::string& name) const;

  // The words of a comma-separated list; those of `fallback` if the option is not given.
  std::vector<std::string> list(const std::string& name, const std::string& fallback = "") const;
  // Whole numbers from `low` to `high`; throws BadInput for anything else.
  std::vector<int> numbers(const std::string& name, const std::string& fallback, int low, int high) const;
  int number(const std::string& name, int fallback, int low, int high) const;
  // A number of seconds above 0.
  double seconds(const std::string& name, double fallback) const;
  // One of the words; throws BadInput for any other.
  std::string one_of(const std::string& name, const std::vector<std::string>& words) const;

 private:
  std::map<std::string, std::string> given_;
};

}  // namespace tmflow::runner
