// POWER8 and POWER9 transactions. Compiled with -mhtm, so nothing here runs before the kernel has reported
// them and a transaction committed.
#include <htmintrin.h>

#include "tmflow/htm/update.hpp"
#include "tmflow/tm_probe.hpp"

namespace tmflow::htm {
namespace {

constexpr unsigned kMutexTaken = 30;

struct Power {
  template <class Taken, class Body>
  [[gnu::always_inline]] static inline bool attempt(const Taken& taken, const Body& body, Ended& ended) {
    if (__builtin_tbegin(0)) {
      if (taken()) __builtin_tabort(kMutexTaken);
      body();
      __builtin_tend(0);
      return true;
    }
    const std::uint64_t texasr = __builtin_get_texasr();
    ended = {.status = texasr, .hopeless = _TEXASR_FAILURE_PERSISTENT(texasr) != 0};
    return false;
  }
};

std::optional<std::string> why_not() {
  static const TmProbe probe = probe_tm(100);
  if (!probe.reported) return "this kernel does not report POWER's transactional memory";
  if (probe.committed == 0)
    return "transactional memory is reported, but none of 100 trial transactions committed";
  return std::nullopt;
}

}  // namespace

constinit const Provider kPower{"power", why_not, run_chunks<Power, float>, run_chunks<Power, double>};

}  // namespace tmflow::htm
