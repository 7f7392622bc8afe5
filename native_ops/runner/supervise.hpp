// Runs a round in a fresh process for each environment that its points need. What a trial, or a warm-up, left
// over that hung or killed its process is for another one. The same as src/tmflow/runner/supervisor.py.
#pragma once

#include "runner/job.hpp"

namespace tmflow::runner {

// Whether the run file holds this round.
bool is_done(const Job& job);

// Runs the round of `job`; on return the run file is complete. Goes on with an interrupted journal of the
// same campaign; a run file or a journal of anything else is set aside, not overwritten. Throws BadInput when
// a process says so, std::runtime_error when one ends early for another reason than a trial.
void run_round(Job job);

}  // namespace tmflow::runner
