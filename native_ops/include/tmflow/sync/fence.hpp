// A fence between threads, in every build.
#pragma once

#include <atomic>

namespace tmflow {

// Like std::atomic_thread_fence. ThreadSanitizer does not support fences, and the compiler warns about them,
// which is an error in our builds. An order that only a fence provides is a race to ThreadSanitizer; the code
// says so there.
inline void fence(std::memory_order order) noexcept {
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtsan"
#endif
  std::atomic_thread_fence(order);
#if defined(__SANITIZE_THREAD__)
#pragma GCC diagnostic pop
#endif
}

// The same between threads whose atomics are `Atom`. A test that replaces std::atomic replaces the fences,
// too (tests/explore).
template <template <class> class Atom>
struct Fence {
  static void issue(std::memory_order order) noexcept { fence(order); }
};

}  // namespace tmflow
