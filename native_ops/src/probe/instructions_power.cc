// POWER8 and POWER9 transactions. Compiled with -mhtm, so nothing here runs before the kernel has reported
// them.
#include <htmintrin.h>

#include "tmflow/probe/instructions.hpp"
#include "tmflow/probe/tm_probe.hpp"
#include "touch.hpp"

namespace tmflow::probe {
namespace {

bool attempt(std::span<const Walk> walks, htm::Ended& ended) {
  if (__builtin_tbegin(0)) {
    for (const Walk& walk : walks) touch(walk);
    __builtin_tend(0);
    return true;
  }
  const std::uint64_t texasr = __builtin_get_texasr();
  ended = {.status = texasr, .hopeless = _TEXASR_FAILURE_PERSISTENT(texasr) != 0};
  return false;
}

bool timed_commit(std::uint64_t ticks[3]) {
  const std::uint64_t before = __builtin_ppc_get_timebase();
  if (!__builtin_tbegin(0)) return false;
  const std::uint64_t inside = __builtin_ppc_get_timebase();
  __builtin_tend(0);
  ticks[2] = __builtin_ppc_get_timebase();
  ticks[1] = inside;
  ticks[0] = before;
  return true;
}

void timed_abort(std::uint64_t ticks[2]) {
  const std::uint64_t before = __builtin_ppc_get_timebase();
  if (__builtin_tbegin(0)) __builtin_tabort(1);
  ticks[1] = __builtin_ppc_get_timebase();
  ticks[0] = before;
}

constexpr Instructions kPower{.dialect = "power",
                              .enabled = [] { return probe_tm(0).reported; },
                              .attempt = attempt,
                              .timed_commit = timed_commit,
                              .timed_abort = timed_abort,
                              .ticks = [] { return std::uint64_t{__builtin_ppc_get_timebase()}; }};

}  // namespace

const Instructions* instructions() { return &kPower; }

}  // namespace tmflow::probe
