// Reads /proc/cpuinfo, whose format differs between architectures, into one description of a processor, as
// src/tmflow/platform/sysfiles.py does.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tmflow::runner {

// A kind of processor. nullopt = not reported; `flags` is nullopt if the architecture has no such line.
struct Processor {
  std::optional<std::string> vendor = {}, model = {};
  std::optional<std::int64_t> family = {}, model_no = {}, stepping = {};
  std::optional<std::set<std::string>> flags = {};
  std::optional<std::string> microcode = {}, machine = {};

  bool has(const std::string& flag) const { return flags && flags->contains(flag); }
};

// The first processor that the text describes.
Processor parse_cpuinfo(std::string_view text);

}  // namespace tmflow::runner
