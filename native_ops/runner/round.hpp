// A process of a round: one warm-up per variant and batch, then every point once, each written down as it
// ends. The same as src/tmflow/runner/round.py.
#pragma once

#include <cstddef>

#include "runner/job.hpp"

namespace tmflow::runner {

// Runs the trials of the round's process of that number (from 0) that its journal does not hold yet, alone on
// the machine. Ends this process with kTimedOut where a trial, or a warm-up, took too long.
void run_process_of_round(const Job& job, std::size_t process);

}  // namespace tmflow::runner
