#include "runner/machine.hpp"

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runner/sysfiles.hpp"

namespace tmflow::runner {
namespace {

double clock_s(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double used_s(int who) {
  rusage usage{};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

struct Shares {
  double steal, others;
};

// Stolen time and time used by others, as shares of cores * wall time. They are cut to [0, 1] because ticks
// and clock do not agree exactly.
std::optional<Shares> shares(const Sample& before, const Sample& after) {
  const double window_s = after.monotonic_s - before.monotonic_s;
  if (!before.times || !after.times || window_s < kMinWindowS) return std::nullopt;
  const double busy_s = after.times->busy_s - before.times->busy_s;
  const double steal_s = after.times->steal_s - before.times->steal_s;
  const double idle_s = after.times->idle_s - before.times->idle_s;
  if (busy_s + steal_s + idle_s <= 0) return std::nullopt;  // the counters did not advance
  const double capacity_s = after.times->cpus * window_s;
  const double others_s = busy_s - (after.own_s - before.own_s);
  return Shares{std::clamp(steal_s / capacity_s, 0.0, 1.0), std::clamp(others_s / capacity_s, 0.0, 1.0)};
}

}  // namespace

std::optional<CpuTimes> CpuTimes::parse(const std::string& text, double ticks_per_s) {
  CpuTimes times{.cpus = -1, .busy_s = 0, .idle_s = 0, .steal_s = 0};  // the first row is the sum
  bool found = false;
  for (const std::string& line : split_lines(text)) {
    if (!line.starts_with("cpu")) continue;
    ++times.cpus;
    const auto words = split_words(line);
    if (words[0] != "cpu" || found) continue;
    if (words.size() < 9) return std::nullopt;
    found = true;
    double seconds[8];  // user, nice, system, idle, iowait, irq, softirq, steal
    for (std::size_t column = 0; column < 8; ++column) {
      const auto ticks = whole_number(words[column + 1]);
      if (!ticks) return std::nullopt;
      seconds[column] = static_cast<double>(*ticks) / ticks_per_s;
    }
    times.busy_s = seconds[0] + seconds[1] + seconds[2] + seconds[5] + seconds[6];
    times.idle_s = seconds[3] + seconds[4];
    times.steal_s = seconds[7];
  }
  return found ? std::optional(times) : std::nullopt;
}

Sample sample(const std::filesystem::path& stat) {
  Sample now{};
  now.own_s = used_s(RUSAGE_SELF) + used_s(RUSAGE_CHILDREN);
  if (double load = 0; getloadavg(&load, 1) == 1) now.load1 = load;
  if (const auto text = file_bytes(stat)) {
    now.times = CpuTimes::parse(*text, static_cast<double>(sysconf(_SC_CLK_TCK)));
  }
  now.monotonic_s = clock_s(CLOCK_MONOTONIC);
  now.boot_s = clock_s(CLOCK_BOOTTIME);
  now.wall_s = clock_s(CLOCK_REALTIME);
  return now;
}

Json between(const Sample& before, const Sample& after) {
  const double passed_s = after.boot_s - before.boot_s;
  const double suspended_s = std::max(passed_s - (after.monotonic_s - before.monotonic_s), 0.0);
  const double clock_moved_s = after.wall_s - before.wall_s - passed_s;
  const auto found = shares(before, after);
  std::optional<bool> disturbed;
  if (found) disturbed = found->steal > kStealLimit || found->others > kOthersLimit;
  if (suspended_s > kClockLimitS || std::abs(clock_moved_s) > kClockLimitS) disturbed = true;
  return Json::Object{
      {"load1_before", before.load1},
      {"load1_after", after.load1},
      {"steal_fraction", found ? Json(found->steal) : Json()},
      {"others_fraction", found ? Json(found->others) : Json()},
      {"suspended_s", suspended_s},
      {"clock_moved_s", clock_moved_s},
      {"disturbed", disturbed},
  };
}

}  // namespace tmflow::runner
