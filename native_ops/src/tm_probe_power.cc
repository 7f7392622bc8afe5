// POWER8 and POWER9 transactions. Compiled with -mhtm, so nothing here runs before the kernel has reported
// them.
#include <htmintrin.h>
#include <sys/auxv.h>

#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {

TmProbe probe_tm(int tries) {
  TmProbe probe;
  probe.reported = (getauxval(AT_HWCAP2) & PPC_FEATURE2_HAS_HTM) != 0;
  if (!probe.reported) return probe;
  volatile int word = 0;
  for (; probe.tried < tries; ++probe.tried) {
    if (__builtin_tbegin(0)) {
      word = word + 1;
      __builtin_tend(0);
      ++probe.committed;
    } else {
      ++probe.statuses[__builtin_get_texasr()];
    }
  }
  return probe;
}

}  // namespace tmflow
