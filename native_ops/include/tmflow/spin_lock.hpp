// Spinning: what it buys by itself, transactions aside.
#pragma once

#include <atomic>
#include <thread>

namespace tmflow {

inline void pause_processor() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// A test-and-test-and-set lock. Waiters read their own copy of the line until the holder writes it; with more
// threads than cores the holder may need the processor, so they give it away now and then.
//
// Memory ordering: the exchange that takes the lock acquires, unlocking releases.
class SpinLock {
 public:
  void lock() noexcept {
    while (taken_.exchange(true, std::memory_order_acquire)) {
      for (int spins = 1; taken_.load(std::memory_order_relaxed); ++spins) {
        if (spins % 1024 == 0) std::this_thread::yield();
        pause_processor();
      }
    }
  }

  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

}  // namespace tmflow
