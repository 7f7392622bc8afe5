// What a competitor can see of a transaction: its age, and whether it can still be killed.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/word.hpp"

namespace tmflow::stm {

// Yields to other threads, in a loop that waits for them.
void give_way() noexcept;

// Spins for `turns` short moments, and yields now and then.
void wait_turns(std::uint64_t turns) noexcept;

// Its memory is never freed while a competitor may read it, which may be long after the transaction that the
// competitor met has ended, and even after its thread has.
//
// Memory ordering: only the atomicity of the changes of the status matters, because a kill publishes nothing
// but itself: a killed transaction reads its own status and rolls back itself.
template <template <class> class Atom = std::atomic>
class alignas(kCacheLine) Contender {
 public:
  Contender() noexcept
      : random_(reinterpret_cast<std::uintptr_t>(this) * std::uint64_t{0x9E3779B97F4A7C15} | 1) {}

  // Begins a transaction, or a new attempt of one, that may be killed.
  TMFLOW_STM_INLINE void activate() noexcept {
    const std::uint64_t last = status_.load(std::memory_order_relaxed);
    status_.store((last & ~kStates) + (kStates + 1) + kActive, std::memory_order_relaxed);
  }

  TMFLOW_STM_INLINE bool is_killed() const noexcept {
    return (status_.load(std::memory_order_relaxed) & kStates) == kKilled;
  }

  // Makes it unkillable: it commits, or has ended. False if it has been killed before.
  TMFLOW_STM_INLINE bool deactivate() noexcept {
    std::uint64_t status = status_.load(std::memory_order_relaxed);
    return (status & kStates) != kKilled &&
           status_.compare_exchange_strong(status, status & ~kStates, std::memory_order_relaxed);
  }

  // Called by another thread. Only the attempt that is active at this moment can be killed, never a later one
  // of the same thread, which has another number. It need not be the one that owned the lock that the
  // competitor met.
  TMFLOW_STM_INLINE void kill() noexcept {
    std::uint64_t status = status_.load(std::memory_order_relaxed);
    if ((status & kStates) != kActive) return;
    status_.compare_exchange_strong(status, status - kActive + kKilled, std::memory_order_relaxed);
  }

  // A random number below `range`, which is at least 1.
  TMFLOW_STM_INLINE std::uint64_t random_below(std::uint64_t range) noexcept {
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_ % range;
  }

  Atom<std::uint64_t> timestamp{0};  // lower is older

 private:
  // The status: the number of the transaction, and in the lowest bits its state.
  static constexpr std::uint64_t kActive = 1, kKilled = 2, kStates = 3;

  std::uint64_t random_;
  alignas(kCacheLine) Atom<std::uint64_t> status_{0};
};

}  // namespace tmflow::stm
