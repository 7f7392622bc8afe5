// What glibc does to this process's mutexes.
#include <pthread.h>

#include "tmflow/htm/update.hpp"
#include "tmflow/tle/glibc_elision.hpp"

namespace tmflow::tle {

#if defined(__x86_64__) && defined(__GLIBC__)

namespace {

// PTHREAD_MUTEX_ELISION_NP of glibc's nptl/pthreadP.h. The first locking of a mutex sets it, if the process
// elides.
constexpr int kElided = 256;

}  // namespace

std::optional<std::string> why_not() { return htm::kRtm.why_not(); }

bool mutexes_are_elided() {
  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  return (mutex.__data.__kind & kElided) != 0;
}

#else

std::optional<std::string> why_not() { return "glibc elides mutexes only on x86-64"; }

bool mutexes_are_elided() { return false; }

#endif

}  // namespace tmflow::tle
