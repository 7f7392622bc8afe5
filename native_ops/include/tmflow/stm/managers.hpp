// Contention managers: which transaction yields in a conflict, and what an aborted one does before it
// restarts.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/stm/contender.hpp"
#include "tmflow/stm/lock_word.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::stm {

// A manager defines
// - `kKills`: whether its transactions may be killed and kill, so that they look at their status;
// - `enter`: what happens before the first attempt of a transaction;
// - `insists`: whether `self` kills the owner of the lock that it needs and waits for it, holding its own
//   locks; otherwise it aborts itself;
// - `before_retry`: what happens after `restarts` consecutive aborts, the last one because of the lock
//   `contended` (nullptr: because of none).
//
// No transaction waits for a lock without noticing that it was killed during the wait, and none waits for a
// transaction that waits in turn without having tried to kill it: so no cycle of waiting transactions lasts.
//
// They work for all transactions that have contenders (contender.hpp), lock words whose lowest bit means
// owned, and an `order` for the age of transactions.

// Abort and retry immediately.
struct Suicide {
  static constexpr bool kKills = false;
  TMFLOW_STM_INLINE static void enter(auto&, auto&) noexcept {}
  TMFLOW_STM_INLINE static void before_retry(auto&, std::uint64_t, const auto*) noexcept {}
};

// Abort, and wait until the lock is free.
struct Delay : Suicide {
  TMFLOW_STM_INLINE static void before_retry(auto& self, std::uint64_t, const auto* contended) noexcept {
    if (contended == nullptr) return;
    for (Turn turn; is_owned(contended->load(std::memory_order_relaxed)); ++turn) self.await(turn);
  }
};

// Abort, and wait for a random time from a range that doubles with every abort in a row.
struct Backoff : Suicide {
  static constexpr std::uint64_t kShortest = 4, kDoublings = 16;  // 4 to 262,144 turns

  TMFLOW_STM_INLINE static void before_retry(auto& self, std::uint64_t restarts, const auto*) noexcept {
    wait_turns(self.random_below(kShortest << (restarts < kDoublings ? restarts : kDoublings)));
  }
};

// Kill the other. The killed transaction backs off for a random time before it comes back and kills in turn;
// otherwise two could kill each other forever.
struct Aggressive : Backoff {
  static constexpr bool kKills = true;
  TMFLOW_STM_INLINE static bool insists(const auto&, const auto&) noexcept { return true; }
};

// The older kills the younger, the younger aborts itself. A transaction keeps its age across aborts, so it is
// the oldest eventually, and then nothing can stop it.
struct Timestamp : Suicide {
  static constexpr bool kKills = true;

  TMFLOW_STM_INLINE static void enter(auto& self, auto& domain) noexcept {
    self.timestamp.store(domain.order.fetch_add(1, std::memory_order_relaxed), std::memory_order_relaxed);
  }
  TMFLOW_STM_INLINE static bool insists(const auto& self, const auto& other) noexcept {
    return self.timestamp.load(std::memory_order_relaxed) < other.timestamp.load(std::memory_order_relaxed);
  }
};

}  // namespace tmflow::stm
