// A spin lock, to measure the effect of spinning without transactions.
#pragma once

#include <atomic>

#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// A test-and-test-and-set lock. Waiters read their own copy of the line until the holder writes it.
//
// Memory ordering: the exchange that locks acquires, the unlock releases.
template <template <class> class Atom = std::atomic>
class BasicSpinLock {
 public:
  bool try_lock() noexcept { return !taken_.exchange(true, std::memory_order_acquire); }

  // A hint, possibly out of date: whether an attempt may succeed.
  bool taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  void lock() noexcept {
    while (!try_lock()) {
      for (Turn turn; taken(); ++turn) Waiting<Atom>::once(turn);
    }
  }

  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

  // Calls `visit` with the address of the atomic that is true while the lock is taken. A transaction that
  // reads it is aborted when another thread locks.
  template <class Visit>
  void for_each_word(const Visit& visit) const {
    visit(&taken_);
  }

 private:
  Atom<bool> taken_{false};
};

using SpinLock = BasicSpinLock<>;

}  // namespace tmflow
