// How a thread waits for another one: it spins, and yields the processor now and then.
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

// The number of a pause in a wait, from 1. A wait may have more pauses than an integer can count, so the
// number wraps around. It has its own type because no loop may wait with a signed counter, whose overflow is
// undefined.
class Turn {
 public:
  constexpr explicit Turn(std::uint32_t number = 1) noexcept : number_(number) {}

  constexpr Turn& operator++() noexcept {
    ++number_;
    return *this;
  }

  // `n` is a power of two, so the multiples stay equidistant when the number wraps around.
  constexpr bool is_multiple_of(std::uint32_t n) const noexcept { return number_ % n == 0; }

 private:
  std::uint32_t number_;
};

// The atomics of a strategy are a template parameter, std::atomic in all products, so that a test can replace
// them and control the schedule (tests/explore). A thread that can continue only after another thread's write
// reports this with `Waiting<Atom>::once(turn)`, where `turn` counts from 1. The explorer then need not run
// that thread before such a write.
template <template <class> class Atom>
struct Waiting {
  // With more threads than cores, the thread that is waited for may need the processor.
  static constexpr std::uint32_t kTurns = 1024;

  static void once(Turn turn) noexcept {
    if (turn.is_multiple_of(kTurns)) std::this_thread::yield();
    pause_processor();
  }
};

}  // namespace tmflow
