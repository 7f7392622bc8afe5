// How many threads a pool of ours has.
#pragma once

#include <cstddef>

namespace tmflow::runtime {

inline constexpr std::size_t kMostThreads = 256;

// One for each processor that the process may use, or as many as $TMFLOW_POOL_THREADS says.
int pool_threads();

}  // namespace tmflow::runtime
