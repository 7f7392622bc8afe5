#include "pool_threads.hpp"

#include <algorithm>
#include <cstdlib>
#include <thread>

namespace tmflow::runtime {

int pool_threads() {
  const char* const given = std::getenv("TMFLOW_POOL_THREADS");
  const int threads = given != nullptr ? std::atoi(given) : 0;
  const unsigned wanted = threads > 0 ? static_cast<unsigned>(threads) : std::thread::hardware_concurrency();
  return static_cast<int>(std::clamp<std::size_t>(wanted, 1, kMostThreads));
}

}  // namespace tmflow::runtime
