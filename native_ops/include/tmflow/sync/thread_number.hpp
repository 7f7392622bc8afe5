// A small number for each thread.
#pragma once

#include <atomic>

namespace tmflow {

// Threads are numbered in the order of their first call. Correctness does not depend on it. A test that
// controls the schedule replaces the numbers.
template <template <class> class Atom>
struct ThreadNumber {
  static unsigned own() noexcept {
    thread_local const unsigned number = next_++;
    return number;
  }

 private:
  inline static std::atomic<unsigned> next_{0};
};

}  // namespace tmflow
