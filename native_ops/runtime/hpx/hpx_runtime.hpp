// The HPX runtime of this process: HPX permits one. Nothing here is of TensorFlow.
#pragma once

namespace tmflow::runtime {

// Starts HPX without a network, unless it has been started. Its threads, one for each processor that the
// process may use or as many as $TMFLOW_POOL_THREADS says, sleep when there is nothing to do.
// Throws std::runtime_error with a sentence if HPX cannot start, as when the process has an HPX of another
// library.
void start_hpx();

}  // namespace tmflow::runtime
