// Intel RTM. Compiled with -mrtm, so nothing here runs before CPUID has reported RTM and a transaction
// committed.
//
// On the processors that we could try (Emerald Rapids), a vzeroupper inside a transaction always aborts it,
// with status 0, and compilers put one at the end of every function that uses wide vectors. So the kernels
// are compiled without (cmake/kernels.cmake), and the upper halves are cleared after the transaction.
#include <immintrin.h>

#include "tmflow/htm/update.hpp"
#include "tmflow/tm_probe.hpp"

namespace tmflow::htm {
namespace {

// The study's code for "the mutex was found taken".
constexpr unsigned kMutexTaken = 30;

struct Rtm {
  // One attempt. `taken` is asked inside the transaction, before `body`. An abort returns control to the
  // _xbegin with a status and everything else as it was.
  template <class Taken, class Body>
  [[gnu::always_inline]] static inline bool attempt(const Taken& taken, const Body& body, Ended& ended) {
    const unsigned status = _xbegin();
    if (status == _XBEGIN_STARTED) {
      if (taken()) _xabort(kMutexTaken);
      body();
      _xend();
      clear_upper_halves();
      return true;
    }
    ended = {.status = status, .hopeless = (status & _XABORT_CAPACITY) != 0};
    return false;
  }
};

std::optional<std::string> why_not() {
  static const TmProbe probe = probe_tm(100);
  if (!probe.reported) return "this processor does not report RTM (Intel TSX)";
  if (probe.committed == 0) return "this processor reports RTM, but none of 100 trial transactions committed";
  return std::nullopt;
}

}  // namespace

constinit const Provider kRtm{"rtm", why_not, run_chunks<Rtm, float>, run_chunks<Rtm, double>};

}  // namespace tmflow::htm
