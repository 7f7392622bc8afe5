// Copies of the strategies over ranges, and of those over copies, each with a likely bug.
#pragma once

#include <atomic>

#include "in_step.hpp"
#include "tmflow/strategies/atomic.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/leashed.hpp"
#include "tmflow/strategies/local_steps.hpp"

namespace tmflow::mutants {

// block_stm that locks nothing.
struct LocksNothing : ranges::Sound {
  static constexpr bool kLocks = false;
};

// block_stm that releases its locks before the write ends.
struct ReleasesEarly : ranges::Sound {
  static constexpr bool kReleasesLast = false;
};

// block_stm whose aborts leave their writes.
struct LeavesWrites : ranges::Sound {
  static constexpr bool kRestores = false;
};

// block_stm whose aborts restore the old version, as if nothing had been written.
struct KeepsVersion : ranges::Sound {
  static constexpr bool kNewVersions = false;
};

// block_stm whose readers check the locks before they copy, but not after.
struct LooksOnce : ranges::Sound {
  static constexpr bool kLooksAgain = false;
};

// block_stm whose readers check after the copy whether a lock is taken, but not its version.
struct LooksForOwnersOnly : ranges::Sound {
  static constexpr bool kComparesVersions = false;
};

// leashed that publishes without comparing versions.
struct PublishesAnyway : publish::Sound {
  static constexpr bool kComparesAtPublication = false;
};

// leashed that writes into copies that a reader holds.
struct WritesWhatIsHeld : publish::Sound {
  static constexpr bool kSparesHeld = false;
};

// leashed whose readers take the first version found for the newest one.
struct TakesWhatItFound : publish::Sound {
  static constexpr bool kLooksAgain = false;
};

// local_steps that replaces the variable by a worker's copy, even if another worker has published since.
struct ReplacesAlways : local::Sound {
  static constexpr bool kComparesVersions = false;
};

// The element of atomic, written by a store instead of a compare-exchange. The threads meet between the load
// and the store, and after the store.
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

// The unchanged element of atomic; the threads meet between the load and the compare-exchange.
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
