// What can run in this process, as far as that can be told without trying.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runner/plan.hpp"

namespace tmflow::runner {

// Hardware threads that this process may use; one where the system does not tell.
int cpus_allowed();

// Why no process of this program can run the strategy as it is by default; nullopt if one can.
std::optional<std::string> never(std::string_view strategy);

// Why a trial of the point cannot run here; nullopt if it can, or if asking goes wrong, which the trial will
// meet. Looks anew with every call.
std::optional<std::string> why_not(const Point& point);

}  // namespace tmflow::runner
