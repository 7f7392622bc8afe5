// Intel RTM. Compiled with -mrtm, so nothing here runs before CPUID has reported RTM.
#include <cpuid.h>
#include <immintrin.h>

#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {
namespace {

bool cpuid_reports_rtm() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_RTM) != 0;
}

}  // namespace

TmProbe probe_tm(int tries) {
  TmProbe probe;
  probe.reported = cpuid_reports_rtm();
  if (!probe.reported) return probe;
  volatile int word = 0;
  for (; probe.tried < tries; ++probe.tried) {
    const unsigned status = _xbegin();
    if (status == _XBEGIN_STARTED) {
      word = word + 1;
      _xend();
      ++probe.committed;
    } else {
      ++probe.statuses[status];
    }
  }
  return probe;
}

}  // namespace tmflow
