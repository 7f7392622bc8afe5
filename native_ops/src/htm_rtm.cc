// Intel RTM. Compiled with -mrtm, so nothing here runs before CPUID has reported RTM and a transaction
// committed.
//
// On the processors that we could test (Emerald Rapids), a vzeroupper inside a transaction always aborts it,
// with status 0, and compilers put one at the end of every function that uses wide vectors. So the kernels
// are compiled without it (cmake/kernels.cmake), and the upper halves are cleared after the transaction.
#include <immintrin.h>

#include "tmflow/htm/hardware_attempt.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow::htm {
namespace {

// The study's code for "the mutex was locked".
constexpr unsigned kMutexTaken = 30;

struct Rtm {
  [[gnu::always_inline]] static inline bool begin(Ended& ended) {
    const unsigned status = _xbegin();
    if (status == _XBEGIN_STARTED) return true;
    ended = {.status = status, .hopeless = (status & _XABORT_CAPACITY) != 0};
    return false;
  }
  [[gnu::always_inline]] static inline void abort_taken() { _xabort(kMutexTaken); }
  [[gnu::always_inline]] static inline void end() {
    _xend();
    clear_upper_halves();
  }
};

using Attempt = HardwareAttempt<Rtm>;

std::optional<std::string> why_not() {
  static const TmProbe probe = probe_tm(100);
  if (!probe.reported) return "this processor does not report RTM (Intel TSX)";
  if (probe.committed == 0) return "this processor reports RTM, but none of 100 trial transactions committed";
  return std::nullopt;
}

}  // namespace

constinit const Provider kRtm{"rtm",
                              why_not,
                              run_chunks<Attempt, float>,
                              run_chunks<Attempt, double>,
                              try_whole<Attempt, float>,
                              try_whole<Attempt, double>};

}  // namespace tmflow::htm
