#include "tmflow/probe/probe.hpp"

#include <algorithm>
#include <stdexcept>

#include "tmflow/format/clock.hpp"
#include "tmflow/probe/parts.hpp"

namespace tmflow::probe {
namespace {

// Shares of the time. The limits of updates are known to 1 % within seconds.
constexpr double kTransactions = 0.6, kMachine = 0.25, kLimits = 0.1, kMostForLimits = 3;

Json measured(double seconds) {
  const auto transactor = make_real_transactor();
  return Json::Object{{"evidence", "measured"},
                      {"emulates", Json()},
                      {"transactions", find_transactions(transactor.get(), true, kTransactions * seconds)},
                      {"machine", find_machine(kMachine * seconds)},
                      {"limits", find_limits(std::min(kMostForLimits, kLimits * seconds))}};
}

Json emulated(const std::string& machine, double seconds) {
  const auto transactor = make_emulated_transactor(machine);
  const auto no_time = []() -> Json { throw NotMeasured("times of an emulated machine mean nothing"); };
  Findings elsewhere, limits;
  for (const char* const name :
       {"line_transfer", "lock_handoff", "memory_bandwidth", "smt_yield", "processors"}) {
    elsewhere.find(name, no_time);
  }
  limits.find("update_ns", no_time);
  return Json::Object{{"evidence", "emulated"},
                      {"emulates", machine},
                      {"transactions", find_transactions(transactor.get(), false, seconds)},
                      {"machine", elsewhere.json()},
                      {"limits", limits.json()}};
}

}  // namespace

std::string probe_json(const ProbeOptions& options) {
  if (!(options.seconds >= 5 && options.seconds <= 600)) {
    throw std::invalid_argument("seconds is " + repr(options.seconds) + "; allowed: 5 to 600");
  }
  const std::string started = utc_now();
  const auto began = Clock::now();
  Json document = options.emulate ? emulated(*options.emulate, options.seconds) : measured(options.seconds);
  document["schema_version"] = 1;
  document["kind"] = "tmflow-probe";
  document["tmflow"] = options.version;
  document["platform_sha256"] = Json();
  document["started_at_utc"] = started;
  document["seconds"] = rounded(seconds_since(began));
  return canonical(document);
}

}  // namespace tmflow::probe
