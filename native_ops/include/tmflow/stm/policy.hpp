// The safety mechanisms by name, so that a test can take one away at compile time and show that it is needed.
#pragma once

#include "tmflow/stm/domain.hpp"

namespace tmflow::stm {

// Where a test may step in, to let another thread run just there.
enum class Point {
  lock_seen,   // a reader has looked at the lock, and not yet at the word
  word_seen,   // ... and at the word, and not yet at the lock again
  validated,   // a commit can no longer fail, and has not yet written back
  half_ended,  // a commit has done the first of its two last parts, writing back and releasing
};

// What every real transaction uses; each flag is a mechanism that it cannot do without.
struct Sound {
  using Domain = stm::Domain;  // of which atomics

  static constexpr bool kChecksVersion = true;       // what is read is within the snapshot
  static constexpr bool kRechecksLock = true;        // the lock is the same after the word was read as before
  static constexpr bool kValidatesExtension = true;  // a snapshot is extended only if all that was read holds
  static constexpr bool kValidatesCommit = true;     // ... and a transaction commits only then
  static constexpr bool kLocksWrites = true;         // what is written is locked
  static constexpr bool kReleasesLast = true;        // ... until it is written
  static constexpr bool kNewIncarnation = true;      // the lock of what was restored differs from before

  TMFLOW_STM_INLINE static void at(Point) noexcept {}
};

}  // namespace tmflow::stm
