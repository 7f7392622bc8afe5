// What an enemy may know of a transaction: how old it is, and whether it can still be killed.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/word.hpp"

namespace tmflow::stm {

// Let other threads run: somewhere in a loop that waits for them.
void give_way() noexcept;

// Spin for `turns` short moments, and let other threads run now and then.
void wait_turns(std::uint64_t turns) noexcept;

// Its memory is never freed while an enemy may look at it, which may be long after the transaction that the
// enemy met has ended, even after its thread has.
//
// Memory ordering: of the status, only the atomicity of its changes counts, because a kill passes nothing on
// but itself: who is killed looks at its own status and rolls back itself.
template <template <class> class Atom = std::atomic>
class alignas(kCacheLine) Contender {
 public:
  Contender() noexcept
      : random_(reinterpret_cast<std::uintptr_t>(this) * std::uint64_t{0x9E3779B97F4A7C15} | 1) {}

  // A transaction begins, or begins anew, that may be killed.
  TMFLOW_STM_INLINE void activate() noexcept {
    const std::uint64_t last = status_.load(std::memory_order_relaxed);
    status_.store((last & ~kStates) + (kStates + 1) + kActive, std::memory_order_relaxed);
  }

  TMFLOW_STM_INLINE bool is_killed() const noexcept {
    return (status_.load(std::memory_order_relaxed) & kStates) == kKilled;
  }

  // It may no longer be killed: it commits, or has ended. False if it has been killed before.
  TMFLOW_STM_INLINE bool deactivate() noexcept {
    std::uint64_t status = status_.load(std::memory_order_relaxed);
    return (status & kStates) != kKilled &&
           status_.compare_exchange_strong(status, status & ~kStates, std::memory_order_relaxed);
  }

  // By another thread. Only the attempt that is active when this looks at it can be hit, never a later one of
  // the same thread: that has another number. It need not be the one that owned the lock which the enemy met.
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
