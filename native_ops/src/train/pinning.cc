#include "pinning.hpp"

#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <system_error>

namespace tmflow::train {

std::vector<int> allowed_processors() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    throw std::system_error(errno, std::generic_category(),
                            "the processors that this process may use are unknown");
  }
  std::vector<int> processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (CPU_ISSET(processor, &allowed)) processors.push_back(processor);
  }
  return processors;
}

void stay_on(int processor) {
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(processor, &only);
  if (const int error = pthread_setaffinity_np(pthread_self(), sizeof only, &only); error != 0) {
    throw std::system_error(error, std::generic_category(),
                            "a worker cannot be pinned to processor " + std::to_string(processor));
  }
}

}  // namespace tmflow::train
