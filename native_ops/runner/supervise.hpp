// Runs a round in a fresh process for each environment that its points need. If a trial or a warm-up hangs or
// kills its process, another process runs the rest. The same as src/tmflow/runner/supervisor.py.
#pragma once

#include "runner/job.hpp"

namespace tmflow::runner {

// Whether the run file holds this round.
bool is_done(const Job& job);

// Runs the round of `job`; on return the run file is complete. Continues an interrupted journal of the same
// campaign. Any other run file or journal is set aside, not overwritten. Throws BadInput if a process reports
// invalid input, std::runtime_error if one ends early for a reason other than a trial.
void run_round(Job job);

}  // namespace tmflow::runner
