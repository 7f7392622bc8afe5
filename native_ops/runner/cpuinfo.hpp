// /proc/cpuinfo, which every architecture words differently, as one kind of processor:
// src/tmflow/platform/cpuinfo.py.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tmflow::runner {

// A kind of processor; nothing = not said. `flags` is nothing where the architecture has no such line.
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
