// Intel RTM. Compiled with -mrtm, so nothing here runs before CPUID has reported RTM and a transaction
// committed.
//
// Also compiled with -mno-vzeroupper: on the processors that we could try (Emerald Rapids), a vzeroupper
// inside a transaction always aborts it, with status 0, and compilers put one at the end of every function
// that uses wide vectors. So the transaction has a kernel of its own, and the upper halves are cleared after
// it.
#include <immintrin.h>

#include "tmflow/htm/update.hpp"
#include "tmflow/tm_probe.hpp"

namespace tmflow::htm {
namespace {

// The study's code for "the mutex was found taken".
constexpr unsigned kMutexTaken = 30;

// The plain loop, as in kernel.cc, but leaving the upper halves of the vector registers as they are.
template <class T>
[[gnu::always_inline]] inline void loop(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

// The choice between the widths must not be made inside the transaction by the dynamic linker: it aborts
// there. A plain pointer, set when the library is loaded, is read like any other memory.
template <class T>
using Loop = void (*)(T*, const T*, T, std::size_t) noexcept;

template <class T>
__attribute__((target("avx512f"))) void loop_avx512(T* v, const T* d, T a, std::size_t n) noexcept {
  loop(v, d, a, n);
}
template <class T>
__attribute__((target("avx2"))) void loop_avx2(T* v, const T* d, T a, std::size_t n) noexcept {
  loop(v, d, a, n);
}
template <class T>
void loop_sse2(T* v, const T* d, T a, std::size_t n) noexcept {
  loop(v, d, a, n);
}

template <class T>
Loop<T> widest() {
  if (__builtin_cpu_supports("avx512f")) return loop_avx512<T>;
  return __builtin_cpu_supports("avx2") ? loop_avx2<T> : loop_sse2<T>;
}

template <class T>
const Loop<T> kLoop = widest<T>();

// Every processor with RTM has AVX; whether the kernel saves its state, this asks.
__attribute__((target("avx"))) void clear_upper_halves() noexcept { _mm256_zeroupper(); }
const bool kHasAvx = __builtin_cpu_supports("avx");

struct Rtm {
  template <class T>
  static void subtract_scaled(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
    kLoop<T>(variable, delta, alpha, n);
  }

  // One attempt. `taken` is asked inside the transaction, before `body`. An abort returns control to the
  // _xbegin with a status and everything else as it was.
  template <class Taken, class Body>
  [[gnu::always_inline]] static inline bool attempt(const Taken& taken, const Body& body, Ended& ended) {
    const unsigned status = _xbegin();
    if (status == _XBEGIN_STARTED) {
      if (taken()) _xabort(kMutexTaken);
      body();
      _xend();
      if (kHasAvx) clear_upper_halves();
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

const Provider kRtm{"rtm", why_not, run_chunks<Rtm, float>, run_chunks<Rtm, double>};

}  // namespace tmflow::htm
