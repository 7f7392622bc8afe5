#include "runner/possible.hpp"

#include <stdexcept>

#include "runner/facts.hpp"
#include "tmflow/core/registry.hpp"

namespace tmflow::runner {
namespace {

// Otherwise an environment that requests elision would turn every strategy with a mutex into `tle`.
std::optional<std::string> mutexes_elided() {
  if (tmflow::why_not("tle", {})) return std::nullopt;
  return "glibc elides every mutex of this process (GLIBC_TUNABLES), which is strategy tle and no other";
}

std::optional<std::string> other_process(const Point& point) {
  if (const Json& library = point.spec.at("library"); !library.is_null()) {
    return "this program is linked statically: it has libitm inside and cannot load " + library.text();
  }
  return mutexes_elided();
}

std::optional<std::string> not_verifiable(std::string_view strategy) {
  if (strategy != "tle") return std::nullopt;
  return "this program is linked statically and cannot list the tunables of its C library, so whether they "
         "took effect is unknown";
}

}  // namespace

int cpus_allowed() { return processors_allowed().value_or(1); }

std::optional<std::string> never(std::string_view strategy) {
  if (const auto reason = listed_strategy(strategy).why_not) return reason;
  return not_verifiable(strategy);
}

std::optional<std::string> why_not(const Point& point) try {
  const int threads = point.whole("threads"), cpus = cpus_allowed();
  if (point.evidence == "emulated" && threads > cpus) {
    return std::to_string(threads) + " threads are more than the " + std::to_string(cpus) +
           " processors that this process may use: emulated transactions would not overlap as those of the "
           "machine do";
  }
  if (const auto reason = not_verifiable(point.text("strategy"))) return reason;
  if (const auto reason = tmflow::why_not(point.text("strategy"), point.parameters)) return reason;
  return other_process(point);
} catch (const std::invalid_argument&) {
  return std::nullopt;
}

}  // namespace tmflow::runner
