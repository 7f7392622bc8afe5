#include "topology.hpp"

#include <fstream>

#include "../train/pinning.hpp"

namespace tmflow::probe {
namespace {

std::string first_line(const std::string& path) {
  std::string line;
  std::ifstream file(path);
  std::getline(file, line);
  return line;
}

template <class Which>
std::optional<Pair> first_pair(const std::vector<Cpu>& cpus, const Which& which) {
  for (const Cpu& one : cpus) {
    for (const Cpu& other : cpus) {
      if (one.number < other.number && which(one, other)) return Pair{one, other};
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<Cpu> allowed_cpus() {
  std::vector<Cpu> cpus;
  for (const int number : train::allowed_processors()) {
    const std::string topology = "/sys/devices/system/cpu/cpu" + std::to_string(number) + "/topology/";
    cpus.push_back({number, first_line(topology + "thread_siblings_list"),
                    first_line(topology + "physical_package_id")});
  }
  return cpus;
}

bool same_core(const Cpu& one, const Cpu& other) { return !one.core.empty() && one.core == other.core; }

std::string_view relation(const Cpu& one, const Cpu& other) {
  if (one.core.empty() || other.core.empty() || one.socket.empty() || other.socket.empty()) return "unknown";
  if (same_core(one, other)) return "one core";
  return one.socket == other.socket ? "one socket" : "two sockets";
}

std::optional<Pair> sibling_pair(const std::vector<Cpu>& cpus) { return first_pair(cpus, same_core); }

std::optional<Pair> core_pair(const std::vector<Cpu>& cpus) {
  return first_pair(cpus, [](const Cpu& one, const Cpu& other) { return !same_core(one, other); });
}

}  // namespace tmflow::probe
