// One attempt at a transaction, with the instructions of a processor.
#pragma once

#include "tmflow/htm/elision.hpp"

namespace tmflow::htm {

// What a processor offers:
//
// - `begin(ended)` begins a transaction and returns true. If the transaction aborts, now or at any time
//   before its end, control returns here with everything else restored; then `ended` has the reason, and it
//   returns false.
// - `abort_taken()` aborts the transaction, because the mutex is locked. On a processor it does not return.
// - `end()` commits.
//
// They are a parameter so that a test on any machine can observe what happens between them. All of it is
// inlined into the function that begins the transaction, because a processor returns to that function's
// frame.
template <class Instructions>
struct HardwareAttempt {
  // A provider's attempt. `taken` is evaluated inside the transaction, before `body`: that subscribes to the
  // mutex.
  template <class Taken, class Body>
  [[gnu::always_inline]] static inline bool attempt(const Taken& taken, const Body& body, Ended& ended) {
    if (!Instructions::begin(ended)) return false;
    if (taken()) Instructions::abort_taken();
    body();
    Instructions::end();
    return true;
  }
};

}  // namespace tmflow::htm
