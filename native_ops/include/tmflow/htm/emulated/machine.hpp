// The numbers of an emulated machine, and their text form.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tmflow::htm::emulated {

// The kind of raw statuses that the machine reports.
enum class Dialect { rtm, power };

// A machine has a cache in which the lines written by a transaction must stay, or a number of entries for the
// lines that it reads and writes. Either belongs to a core, whose hardware threads share it.
struct Machine {
  Dialect dialect = Dialect::rtm;
  std::size_t line_bytes = 0;
  std::size_t sets = 0;  // of the cache; 0 if there are entries
  std::size_t ways = 0;
  bool reads_fill = true;    // lines that are only read occupy space in the cache too
  std::size_t entries = 0;   // 0 if there is a cache
  std::size_t siblings = 0;  // hardware threads of a core
  double asynchronous = 0;   // probability of an abort without a cause in our accesses, per line touched
};

// Reads "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=2;asynchronous=1e-7", or
// "provider=power;line_bytes=128;entries=64;siblings=8;asynchronous=0", in any order.
class MachineText {
 public:
  static constexpr std::string_view kAllowed =
      "the numbers of a machine, as \"provider=rtm;line_bytes=64;...\"";

  // Throws std::invalid_argument, which names what is missing, unknown, given twice or impossible.
  static Machine parse(std::string_view text) { return MachineText(text).machine(); }

 private:
  explicit MachineText(std::string_view text) {
    while (!text.empty()) {
      const std::string_view part = text.substr(0, text.find(';'));
      text.remove_prefix(std::min(part.size() + 1, text.size()));
      const std::size_t equals = part.find('=');
      if (equals == part.npos) fail({"'", part, "' is not of the form name=value"});
      const std::string_view name = part.substr(0, equals);
      if (!given_.emplace(name, part.substr(equals + 1)).second) fail({name, " is given twice"});
    }
  }

  Machine machine() {
    Machine machine{.dialect = dialect(),
                    .line_bytes = power_of_two("line_bytes", 8, 4096),
                    .siblings = count("siblings", 1, 64),
                    .asynchronous = probability("asynchronous")};
    if (given_.contains("entries")) {
      machine.entries = count("entries", 1, kMost);
    } else {
      machine.sets = power_of_two("sets", 1, kMost);
      machine.ways = count("ways", 1, kMost);
      if (machine.sets * machine.ways > kMost) {
        fail({"sets times ways is ", std::to_string(machine.sets * machine.ways), "; allowed: up to ",
              std::to_string(kMost), " lines"});
      }
      machine.reads_fill = count("reads_fill", 0, 1) == 1;
    }
    if (!given_.empty()) fail({"unknown number '", given_.begin()->first, "'"});
    return machine;
  }

  Dialect dialect() {
    const std::string_view provider = take("provider");
    if (provider != "rtm" && provider != "power") {
      fail({"provider is '", provider, "'; allowed: rtm, power"});
    }
    return provider == "power" ? Dialect::power : Dialect::rtm;
  }

  std::size_t count(std::string_view name, std::size_t low, std::size_t high) {
    const std::string_view text = take(name);
    std::size_t value = 0;
    if (!parsed(text, value) || value < low || value > high) {
      fail({name, " is '", text, "'; allowed: ", std::to_string(low), " to ", std::to_string(high)});
    }
    return value;
  }

  std::size_t power_of_two(std::string_view name, std::size_t low, std::size_t high) {
    const std::size_t value = count(name, low, high);
    if ((value & (value - 1)) != 0) {
      fail({name, " is '", std::to_string(value), "', which is no power of two"});
    }
    return value;
  }

  double probability(std::string_view name) {
    const std::string_view text = take(name);
    double value = 0;
    if (!parsed(text, value) || !(value >= 0 && value <= 1)) {
      fail({name, " is '", text, "'; allowed: a probability, 0 to 1"});
    }
    return value;
  }

  std::string_view take(std::string_view name) {
    const auto found = given_.find(name);
    if (found == given_.end()) fail({name, " is missing"});
    const std::string_view value = found->second;
    given_.erase(found);
    return value;
  }

  template <class Number>
  static bool parsed(std::string_view text, Number& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size();
  }

  [[noreturn]] static void fail(std::initializer_list<std::string_view> what) {
    std::string sentence = "the emulated machine: ";
    for (const std::string_view part : what) sentence += part;
    throw std::invalid_argument(sentence);
  }

  static constexpr std::size_t kMost = std::size_t{1} << 20;
  std::map<std::string_view, std::string_view> given_;
};

}  // namespace tmflow::htm::emulated
