// What can run in this process, as far as this is known without a trial.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/plan.hpp"

namespace tmflow::runner {

// The hardware threads that this process may use; one if the system does not report them.
int cpus_allowed();

// Why no process of this program can run the strategy with its defaults; nullopt if one can.
std::optional<std::string> never(std::string_view strategy);

// Why a trial of the point cannot run here. nullopt if it can, or if the check itself fails; the trial then
// meets the same error. Every call checks again.
std::optional<std::string> why_not(const Point& point);

}  // namespace tmflow::runner
