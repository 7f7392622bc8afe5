// Which of the processors that this process may use share a core or a socket.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tmflow::probe {

struct Cpu {
  int number;
  std::string core;    // the same for all processors of a core; empty if the system does not report it
  std::string socket;  // the same for a socket
};

std::vector<Cpu> allowed_cpus();

bool same_core(const Cpu& one, const Cpu& other);
// "one core", "one socket", "two sockets", or "unknown".
std::string_view relation(const Cpu& one, const Cpu& other);

struct Pair {
  Cpu one, other;
};
// The first two processors of one core; nullopt if no core has two that this process may use.
std::optional<Pair> sibling_pair(const std::vector<Cpu>& cpus);
// The first processor, and the first one on another core.
std::optional<Pair> core_pair(const std::vector<Cpu>& cpus);

}  // namespace tmflow::probe
