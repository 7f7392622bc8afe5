// A number for each thread, small and its own.
#pragma once

#include <atomic>

namespace tmflow {

// Threads are numbered in the order in which they first ask. No correctness hangs on it. A test that decides
// who runs when puts its own numbers in its place.
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
