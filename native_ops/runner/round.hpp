// A process of a round: one warm-up per variant and batch size, then every point once. Each trial is recorded
// as it ends. The same as src/tmflow/runner/round.py.
#pragma once

#include <cstddef>

#include "runner/job.hpp"

namespace tmflow::runner {

// Runs the trials of the round's process of that number (from 0) that the journal does not hold yet, while it
// holds the lock of the machine. Ends this process with kTimedOut if a trial or a warm-up takes too long.
void run_process_of_round(const Job& job, std::size_t process);

}  // namespace tmflow::runner
