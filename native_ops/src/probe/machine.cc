// The measurements other than transactions.
#include "measurements.hpp"
#include "tmflow/probe/parts.hpp"

namespace tmflow::probe {
namespace {

// Shares of the time.
constexpr double kTransfers = 0.3, kHandoffs = 0.3, kBandwidth = 0.25, kYield = 0.15;

}  // namespace

Json find_machine(double seconds) {
  const std::vector<Cpu> cpus = allowed_cpus();
  Findings found;
  found.set("processors", cpus.size());
  found.find("line_transfer", [&] { return line_transfers(cpus, Budget(kTransfers * seconds)); });
  found.find("lock_handoff", [&] { return lock_handoffs(cpus, Budget(kHandoffs * seconds)); });
  found.find("memory_bandwidth", [&] { return memory_bandwidth(cpus, Budget(kBandwidth * seconds)); });
  found.find("smt_yield", [&] { return smt_yield(cpus, Budget(kYield * seconds)); });
  return found.json();
}

Json find_limits(double seconds) {
  Findings found;
  found.find("update_ns", [&] { return update_times(allowed_cpus(), Budget(seconds)); });
  return found.json();
}

}  // namespace tmflow::probe
