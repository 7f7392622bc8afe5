// How a thread waits for another one: by spinning, and by giving the processor away now and then.
#pragma once

#include <atomic>
#include <thread>

namespace tmflow {

inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// What a strategy's atomics are is a template parameter, std::atomic in all that is built, so that a test can
// put others in their place and decide who runs when (tests/explore). A thread that can go on only after
// another one has written something says so by `Waiting<Atom>::once(turn)`, where `turn` counts from 1: for
// the explorer, that thread need not run again before then.
template <template <class> class Atom>
struct Waiting {
  static constexpr int kTurns =
      1024;  // with more threads than cores, who is waited for may need the processor

  static void once(int turn) noexcept {
    if (turn % kTurns == 0) std::this_thread::yield();
    pause_processor();
  }
};

}  // namespace tmflow
