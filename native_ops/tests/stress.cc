// Four threads under one strategy, audited, for the sanitizers and the emulators.
//
//     stress NAME [name=value ...]
//
// Exits with 1 if the strategy violates its consistency; reports a strategy that cannot run here.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "mutants.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"

namespace {

using namespace tmflow;

constexpr AuditPlan kPlan{.threads = 4, .updates = 200, .elements = 1000};

template <class T, class S>
int stress(S& strategy, Consistency consistency) {
  const AuditReport report = audit<T>(strategy, kPlan);
  std::printf("float%zu: lost %lld of %lld\n", 8 * sizeof(T), static_cast<long long>(report.tally.lost),
              static_cast<long long>(report.expected));
  const bool counted = report.counted == kPlan.threads * kPlan.updates;
  return counted && (consistency == Consistency::none || report.clean()) ? 0 : 1;
}

template <class T>
int stress_named(const Listed& listed, const std::vector<std::string>& parameters) {
  return stress<T>(*make_strategy<ArrayRegion<T>>(listed.info.name, parameters), listed.info.updates);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  if (name == "private_lock") {
    mutants::PrivateMutex broken;
    return stress<double>(broken, Consistency::none);
  }
  const std::vector<std::string> parameters(argv + (argc > 1 ? 2 : 1), argv + argc);
  try {
    for (const Listed& listed : listed_strategies()) {
      if (listed.info.name != name) continue;
      if (listed.why_not) {
        std::printf("%s cannot run here: %s\n", name.c_str(), listed.why_not->c_str());
        return 0;
      }
      return stress_named<float>(listed, parameters) + stress_named<double>(listed, parameters) == 0 ? 0 : 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
  std::fprintf(stderr, "usage: stress private_lock|%s [name=value ...]\n", strategy_names("").c_str());
  return 2;
}
