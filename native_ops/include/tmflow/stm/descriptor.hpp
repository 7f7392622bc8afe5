// A thread as its transactions, and their enemies, know it.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/stats.hpp"
#include "tmflow/stm/read_set.hpp"
#include "tmflow/stm/stripe_index.hpp"
#include "tmflow/stm/write_set.hpp"

namespace tmflow::stm {

// Let other threads run: somewhere in a loop that waits for them.
void give_way() noexcept;

// Spin for `turns` short moments, and let other threads run now and then.
void wait_turns(std::uint64_t turns) noexcept;

// Its memory is never freed: an enemy may look at `status` and `timestamp` long after the transaction that it
// met has ended, even after the thread has. The rest belongs to the thread.
//
// Memory ordering: of `status`, only the atomicity of its changes counts, because a kill passes nothing on
// but itself: who is killed looks at its own status and rolls back itself.
class alignas(kCacheLine) Descriptor {
 public:
  Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

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

  std::atomic<std::uint64_t> timestamp{0};  // lower is older

  alignas(kCacheLine) ReadSet reads;
  WriteSet writes;
  StripeIndex index;
  bool busy = false;

 private:
  // The status: the number of the transaction, and in the lowest bits its state.
  static constexpr std::uint64_t kActive = 1, kKilled = 2, kStates = 3;

  std::uint64_t random_;
  alignas(kCacheLine) std::atomic<std::uint64_t> status_{0};
};

// This thread's descriptor, for one transaction. Throws std::logic_error if the thread is in a transaction
// already: a nested one has to be told of the outer one.
class Claim {
 public:
  Claim();
  TMFLOW_STM_INLINE ~Claim() { descriptor.busy = false; }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  Descriptor& descriptor;
};

}  // namespace tmflow::stm
