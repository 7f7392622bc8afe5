// A fence between threads, in every build.
#pragma once

#include <atomic>

namespace tmflow {

// As std::atomic_thread_fence. ThreadSanitizer knows no fences, and the compiler says so, as an error in our
// builds: what only a fence orders is a race to ThreadSanitizer, and says so where it is.
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

// The same between threads whose atomics are `Atom`. A test that puts other atomics in the place of
// std::atomic has fences of its own, too (tests/explore).
template <template <class> class Atom>
struct Fence {
  static void issue(std::memory_order order) noexcept { fence(order); }
};

}  // namespace tmflow
