// What this processor reports and does about hardware transactional memory.
#pragma once

#include <cstdint>
#include <map>

namespace tmflow {

struct TmProbe {
  bool reported = false;  // the processor (CPUID) or the kernel (AT_HWCAP2) reports transactions
  int tried = 0;          // tiny transactions begun: none unless reported
  int committed = 0;
  std::map<std::uint64_t, int> statuses;  // raw abort status (EAX of xbegin, TEXASR on POWER) -> how often
};

// Begins `tries` transactions that write one word each. The report alone is not sufficient: microcode may
// abort all of them. Never executes a transactional instruction on a processor that does not report them.
TmProbe probe_tm(int tries);

}  // namespace tmflow
