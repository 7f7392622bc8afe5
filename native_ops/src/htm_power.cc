// POWER8 and POWER9 transactions. Compiled with -mhtm, so nothing here runs before the kernel has reported
// them and a transaction committed.
#include <htmintrin.h>

#include "tmflow/htm/hardware_attempt.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow::htm {
namespace {

constexpr unsigned kMutexTaken = 30;

struct Power {
  [[gnu::always_inline]] static inline bool begin(Ended& ended) {
    if (__builtin_tbegin(0)) return true;
    const std::uint64_t texasr = __builtin_get_texasr();
    ended = {.status = texasr, .hopeless = _TEXASR_FAILURE_PERSISTENT(texasr) != 0};
    return false;
  }
  [[gnu::always_inline]] static inline void abort_taken() { __builtin_tabort(kMutexTaken); }
  [[gnu::always_inline]] static inline void end() { __builtin_tend(0); }
};

using Attempt = HardwareAttempt<Power>;

std::optional<std::string> why_not() {
  static const TmProbe probe = probe_tm(100);
  if (!probe.reported) return "this kernel does not report POWER's transactional memory";
  if (probe.committed == 0)
    return "transactional memory is reported, but none of 100 trial transactions committed";
  return std::nullopt;
}

}  // namespace

constinit const Provider kPower{"power",
                                why_not,
                                run_chunks<Attempt, float>,
                                run_chunks<Attempt, double>,
                                try_whole<Attempt, float>,
                                try_whole<Attempt, double>};

}  // namespace tmflow::htm
