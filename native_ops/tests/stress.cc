// Four threads under one strategy, audited: for the sanitizers to watch. Fails if a strategy breaks its
// promise.
#include <cstdio>
#include <string>
#include <vector>

#include "seeded.hpp"
#include "tmflow/audit.hpp"
#include "tmflow/registry.hpp"

namespace {

using namespace tmflow;

constexpr AuditPlan kPlan{.threads = 4, .updates = 200, .elements = 1000};

template <class S>
int stress(S& strategy, Promise promise) {
  const AuditReport report = audit<double>(strategy, kPlan);
  std::printf("lost %lld of %lld\n", static_cast<long long>(report.tally.lost),
              static_cast<long long>(report.expected));
  return promise == Promise::none || report.clean() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc == 2 ? argv[1] : "";
  if (name == "private_lock") {
    seeded::PrivateLock broken;
    return stress(broken, Promise::none);
  }
  // ThreadSanitizer cannot see that hardware transactions exclude each other; it watches their fallback.
  std::vector<std::string> parameters;
#if defined(__SANITIZE_THREAD__)
  if (name == "htm") parameters = {"budget=0"};
#endif
  for (const Listed& listed : listed_strategies()) {
    if (listed.info.name != name) continue;
    if (listed.why_not) {
      std::printf("%s cannot run here: %s\n", name.c_str(), listed.why_not->c_str());
      return 0;
    }
    return stress(*make_strategy<ArrayRegion<double>>(name, parameters), listed.info.updates);
  }
  std::fprintf(stderr, "usage: stress private_lock|%s\n", strategy_names().c_str());
  return 2;
}
