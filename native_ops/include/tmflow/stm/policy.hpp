// The safety mechanisms by name, so that a test can remove one at compile time and show that it is necessary.
#pragma once

#include "tmflow/stm/domain.hpp"

namespace tmflow::stm {

// Points at which a test may intervene, to let another thread run.
enum class Point {
  lock_seen,   // a reader has checked the lock, and not yet read the word
  word_seen,   // ... and read the word, and not yet checked the lock again
  validated,   // a commit can no longer fail, and has not yet written back
  half_ended,  // a commit has done the first of its two last parts, writing back and releasing
};

// The policy of every real transaction; each flag is a necessary mechanism.
struct Sound {
  using Domain = stm::Domain;  // with its atomics

  static constexpr bool kChecksVersion = true;  // what is read is within the snapshot
  static constexpr bool kRechecksLock = true;   // the lock is the same after the word was read as before
  static constexpr bool kValidatesExtension =
      true;                                       // a snapshot is extended only after validation of all reads
  static constexpr bool kValidatesCommit = true;  // ... and so is a commit
  static constexpr bool kLocksWrites = true;      // what is written is locked
  static constexpr bool kReleasesLast = true;     // ... until it is written
  static constexpr bool kNewIncarnation = true;   // the lock of a restored stripe differs from before

  TMFLOW_STM_INLINE static void at(Point) noexcept {}
};

}  // namespace tmflow::stm
