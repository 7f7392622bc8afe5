// What else the machine did during a trial: the differences between two samples of the kernel's counters. The
// same as src/tmflow/runner/machine_load.py, which explains the limits.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

inline constexpr double kStealLimit = 0.02, kOthersLimit = 0.10;
inline constexpr double kMinWindowS = 0.5, kClockLimitS = 0.1;

// /proc/stat: CPU time since boot, summed over the CPUs.
struct CpuTimes {
  int cpus;
  double busy_s, idle_s, steal_s;

  // nullopt if the text is not that of /proc/stat.
  static std::optional<CpuTimes> parse(const std::string& text, double ticks_per_s);
};

// The counters at one moment. `own_s`: CPU time of this process and of the children that it has waited for.
struct Sample {
  double monotonic_s, boot_s, wall_s;
  double own_s;
  std::optional<double> load1 = {};
  std::optional<CpuTimes> times = {};
};

// Takes a sample; call it before and after a trial.
Sample sample(const std::filesystem::path& stat = "/proc/stat");

// What the rest of the machine did between the two samples: the `machine` of a run.
Json between(const Sample& before, const Sample& after);

}  // namespace tmflow::runner
