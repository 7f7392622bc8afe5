// Compiled with -mrtm: the instruction runs only where CPUID has reported RTM, and is illegal elsewhere.
#include <immintrin.h>

#include "tmflow/htm/hardware_transaction.hpp"
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {
namespace {

// Queried when the library is loaded, because the query would abort a transaction.
const bool kReported = probe_tm(0).reported;

}  // namespace

bool in_hardware_transaction() noexcept { return kReported && _xtest() != 0; }

}  // namespace tmflow
