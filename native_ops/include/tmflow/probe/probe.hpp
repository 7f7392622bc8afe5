// What this machine's transactions and memory really do, found out by trying.
#pragma once

#include <optional>
#include <string>

namespace tmflow::probe {

struct ProbeOptions {
  double seconds = 60;  // all of the probe; it ends earlier where it knows enough
  std::optional<std::string>
      emulate;          // the numbers of a machine (htm/emulated/machine.hpp) to stand in for this one
  std::string version;  // of tmflow
};

// The document, as JSON (docs/probe.md says what each number means). What could not be measured is null, and
// "why" beside it says why. `platform_sha256` is null, for the caller to fill in. Throws
// std::invalid_argument for a time that is not 5 to 600 s, and for an impossible machine.
std::string probe_json(const ProbeOptions& options);

}  // namespace tmflow::probe
