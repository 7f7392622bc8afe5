// The safety mechanisms of transactions over ranges by name, so that a test can take one away at compile time
// and show that it is needed.
#pragma once

namespace tmflow::ranges {

// What every real transaction and snapshot uses.
struct Sound {
  static constexpr bool kLocks = true;             // what is written is locked
  static constexpr bool kReleasesLast = true;      // ... until it is written
  static constexpr bool kRestores = true;          // an abort restores what was written
  static constexpr bool kNewVersions = true;       // ... and gives the lock another version
  static constexpr bool kLooksAgain = true;        // a reader looks at the locks again after its copy
  static constexpr bool kComparesVersions = true;  // ... not only for owners, but for other versions

  static constexpr bool kCounts = true;  // commits and aborts
};

// For a strategy that goes by transactions now and then: their commits and aborts are no counts of its own.
struct Uncounted : Sound {
  static constexpr bool kCounts = false;
};

}  // namespace tmflow::ranges
