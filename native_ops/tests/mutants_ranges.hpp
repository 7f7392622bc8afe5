// Copies of the strategies over ranges, of leashed and of atomic, each with the bug that one would make in
// it.
#pragma once

#include <atomic>

#include "in_step.hpp"
#include "tmflow/strategies/atomic.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/leashed.hpp"

namespace tmflow::mutants {

// block_stm that locks nothing.
struct LocksNothing : ranges::Sound {
  static constexpr bool kLocks = false;
};

// block_stm that gives its locks back before the write ends.
struct ReleasesEarly : ranges::Sound {
  static constexpr bool kReleasesLast = false;
};

// block_stm whose aborts leave what they wrote.
struct LeavesWrites : ranges::Sound {
  static constexpr bool kRestores = false;
};

// block_stm whose aborts pretend that nothing was written in between.
struct KeepsVersion : ranges::Sound {
  static constexpr bool kNewVersions = false;
};

// block_stm whose readers look at the locks before they copy and not after.
struct LooksOnce : ranges::Sound {
  static constexpr bool kLooksAgain = false;
};

// block_stm whose readers look after they copied whether a lock is taken, and not which version it has.
struct LooksForOwnersOnly : ranges::Sound {
  static constexpr bool kComparesVersions = false;
};

// leashed that publishes whatever came first.
struct PublishesAnyway : publish::Sound {
  static constexpr bool kComparesAtPublication = false;
};

// leashed that writes into copies that somebody reads.
struct WritesWhatIsHeld : publish::Sound {
  static constexpr bool kSparesHeld = false;
};

// leashed whose readers take what they found first for the newest version.
struct TakesWhatItFound : publish::Sound {
  static constexpr bool kLooksAgain = false;
};

// The element of atomic, written by a store instead of a compare-exchange. The threads meet between the load
// and the store, and after it.
template <class T>
class StoredRef {
 public:
  explicit StoredRef(T& element) : element_(element) {}

  T load(std::memory_order order) const noexcept { return element_.load(order); }
  bool compare_exchange_weak(T&, T desired, std::memory_order order) noexcept {
    seeded::meeting->wait();
    element_.store(desired, order);
    seeded::meeting->wait();
    return true;
  }

 private:
  std::atomic_ref<T> element_;
};

// The element of atomic as it is, where the threads meet between the load and the compare-exchange.
template <class T>
class MeetingRef {
 public:
  explicit MeetingRef(T& element) : element_(element) {}

  T load(std::memory_order order) const noexcept { return element_.load(order); }
  bool compare_exchange_weak(T& seen, T desired, std::memory_order order) noexcept {
    seeded::meeting->wait();
    return element_.compare_exchange_strong(seen, desired, order);
  }

 private:
  std::atomic_ref<T> element_;
};

}  // namespace tmflow::mutants
