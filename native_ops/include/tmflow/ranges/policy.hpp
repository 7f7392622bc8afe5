// The safety mechanisms of transactions over ranges by name, so that a test can remove one at compile time
// and show that it is necessary.
#pragma once

namespace tmflow::ranges {

// The mechanisms of every real transaction and snapshot.
struct Sound {
  static constexpr bool kLocks = true;             // what is written is locked
  static constexpr bool kReleasesLast = true;      // ... until it is written
  static constexpr bool kRestores = true;          // an abort restores what was written
  static constexpr bool kNewVersions = true;       // ... and gives the lock another version
  static constexpr bool kLooksAgain = true;        // a reader checks the locks again after its copy
  static constexpr bool kComparesVersions = true;  // ... not only for owners, but for other versions

  static constexpr bool kCounts = true;  // commits and aborts
};

// For a strategy that uses transactions only sometimes: commits and aborts are not counted as the strategy's.
struct Uncounted : Sound {
  static constexpr bool kCounts = false;
};

}  // namespace tmflow::ranges
