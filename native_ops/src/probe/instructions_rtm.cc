// Intel RTM. Compiled with -mrtm, so nothing here runs before CPUID has reported RTM.
#include <cpuid.h>
#include <immintrin.h>

#include "tmflow/probe/instructions.hpp"
#include "touch.hpp"

namespace tmflow::probe {
namespace {

// Microcode that disables RTM may leave it in CPUID; another bit there then says that every transaction
// aborts.
bool enabled() {
  constexpr unsigned kRtmAlwaysAborts = 1u << 11;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & bit_RTM) != 0 &&
         (edx & kRtmAlwaysAborts) == 0;
}

bool attempt(std::span<const Walk> walks, htm::Ended& ended) {
  const unsigned status = _xbegin();
  if (status == _XBEGIN_STARTED) {
    for (const Walk& walk : walks) touch(walk);
    _xend();
    return true;
  }
  ended = {.status = status, .hopeless = (status & _XABORT_CAPACITY) != 0};
  return false;
}

// Reads the clock after all earlier instructions, and before all later ones.
[[gnu::always_inline]] inline std::uint64_t now() {
  unsigned processor;
  const std::uint64_t ticks = __rdtscp(&processor);
  _mm_lfence();
  return ticks;
}

bool timed_commit(std::uint64_t ticks[3]) {
  const std::uint64_t before = now();
  if (_xbegin() != _XBEGIN_STARTED) return false;
  const std::uint64_t inside = now();
  _xend();
  ticks[2] = now();
  ticks[1] = inside;
  ticks[0] = before;
  return true;
}

void timed_abort(std::uint64_t ticks[2]) {
  const std::uint64_t before = now();
  if (_xbegin() == _XBEGIN_STARTED) _xabort(1);
  ticks[1] = now();
  ticks[0] = before;
}

constexpr Instructions kRtm{.dialect = "rtm",
                            .enabled = enabled,
                            .attempt = attempt,
                            .timed_commit = timed_commit,
                            .timed_abort = timed_abort,
                            .ticks = [] { return now(); }};

}  // namespace

const Instructions* instructions() { return &kRtm; }

}  // namespace tmflow::probe
