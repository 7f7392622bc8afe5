// The probe: measures what this machine's transactions and memory do.
#pragma once

#include <optional>
#include <string>

namespace tmflow::probe {

struct ProbeOptions {
  double seconds = 60;  // for the whole probe; it ends earlier if it has enough results
  std::optional<std::string>
      emulate;          // the numbers of an emulated machine (htm/emulated/machine.hpp) to probe instead
  std::string version;  // of tmflow
};

// The document as JSON (docs/probe.md explains each number). A number that could not be measured is null, and
// "why" gives the reason. `platform_sha256` is null, for the caller to fill in. Throws std::invalid_argument
// for a time that is not 5 to 600 s, and for an impossible machine.
std::string probe_json(const ProbeOptions& options);

}  // namespace tmflow::probe
