// Plain queue mutexes, which the benchmark compares in addition to std::mutex, absl::Mutex and the spin lock.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// In a queue, no thread can overtake the next one: if that thread has no processor, all wait until it gets
// one. So waiters yield sooner than under a spin lock.
template <template <class> class Atom>
void wait_in_line(Turn turn) noexcept {
  constexpr std::uint32_t kBetweenYields = 32;
  Waiting<Atom>::once(turn.is_multiple_of(kBetweenYields) ? Turn(Waiting<Atom>::kTurns) : turn);
}

// Threads are served in the order in which they drew a number. All of them watch the number being served, so
// each unlock invalidates that line in every waiter's cache.
//
// Contract: as a mutex; first come, first served. At most 2^32 concurrent threads: the numbers wrap around.
//
// Memory ordering: drawing a number orders nothing, so it is relaxed. The load that sees a thread's own
// number acquires what the unlock that stored it released. Only the owner writes `served_`, so its own load
// of it is relaxed.
template <template <class> class Atom = std::atomic>
class BasicTicketLock {
 public:
  void lock() noexcept {
    const std::uint32_t own = next_.fetch_add(1, std::memory_order_relaxed);
    for (Turn turn; served_.load(std::memory_order_acquire) != own; ++turn) wait_in_line<Atom>(turn);
  }

  void unlock() noexcept {
    served_.store(served_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

 private:
  Atom<std::uint32_t> next_{0};
  Atom<std::uint32_t> served_{0};
};

// The queue lock of Mellor-Crummey and Scott: each waiter watches a separate place, so an unlock invalidates
// the line of one thread only.
//
// Contract: as a mutex; first come, first served. A place belongs to one holder or waiter from lock to
// unlock.
//
// Memory ordering: the exchange of `last_` acquires, so that a thread that finds the queue empty sees what
// the last owner did before its compare-exchange released it; and it releases the new place's fields to the
// thread that queues behind it. The link from place to place releases, and is acquired before the successor's
// place is written. A waiter acquires through its own place what the unlock that ends its wait released.
template <template <class> class Atom = std::atomic>
class BasicMcsLock {
 public:
  class alignas(64) Place {
    friend BasicMcsLock;
    Atom<Place*> behind{nullptr};
    Atom<bool> waits{true};
  };

  void lock(Place& own) noexcept {
    Place* const before = last_.exchange(&own, std::memory_order_acq_rel);
    if (before == nullptr) return;
    before->behind.store(&own, std::memory_order_release);
    for (Turn turn; own.waits.load(std::memory_order_acquire); ++turn) wait_in_line<Atom>(turn);
  }

  void unlock(Place& own) noexcept {
    Place* behind = own.behind.load(std::memory_order_acquire);
    if (behind == nullptr) {
      Place* last = &own;
      if (last_.compare_exchange_strong(last, nullptr, std::memory_order_release, std::memory_order_relaxed))
        return;
      // Another thread is between the exchange and the link: its place appears soon.
      for (Turn turn; (behind = own.behind.load(std::memory_order_acquire)) == nullptr; ++turn) {
        wait_in_line<Atom>(turn);
      }
    }
    behind->waits.store(false, std::memory_order_release);
  }

  // Holds the lock for a scope, with a separate place.
  class [[nodiscard]] Guard {
   public:
    explicit Guard(BasicMcsLock& lock) noexcept : lock_(lock) { lock_.lock(place_); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { lock_.unlock(place_); }

   private:
    BasicMcsLock& lock_;
    Place place_;
  };

 private:
  Atom<Place*> last_{nullptr};
};

using TicketLock = BasicTicketLock<>;
using McsLock = BasicMcsLock<>;

}  // namespace tmflow
