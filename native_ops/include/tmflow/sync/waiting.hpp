// How a thread waits for another one: by spinning, and by giving the processor away now and then.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace tmflow {

inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// The number of a pause in a wait, from 1. A wait may last for more pauses than an integer can count, so the
// number wraps around. A type of its own, because no loop may wait with a signed counter, whose overflow is
// undefined.
class Turn {
 public:
  constexpr explicit Turn(std::uint32_t number = 1) noexcept : number_(number) {}

  constexpr Turn& operator++() noexcept {
    ++number_;
    return *this;
  }

  // `n` is a power of two, so the multiples keep their distance where the number wraps around.
  constexpr bool is_multiple_of(std::uint32_t n) const noexcept { return number_ % n == 0; }

 private:
  std::uint32_t number_;
};

// What a strategy's atomics are is a template parameter, std::atomic in all that is built, so that a test can
// put others in their place and decide who runs when (tests/explore). A thread that can go on only after
// another one has written something says so by `Waiting<Atom>::once(turn)`, where `turn` counts from 1: for
// the explorer, that thread need not run again before then.
template <template <class> class Atom>
struct Waiting {
  // With more threads than cores, who is waited for may need the processor.
  static constexpr std::uint32_t kTurns = 1024;

  static void once(Turn turn) noexcept {
    if (turn.is_multiple_of(kTurns)) std::this_thread::yield();
    pause_processor();
  }
};

}  // namespace tmflow
