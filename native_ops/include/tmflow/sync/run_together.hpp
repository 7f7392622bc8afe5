// Threads that start together.
#pragma once

#include <concepts>
#include <exception>
#include <thread>
#include <vector>

namespace tmflow {

// Runs work(0) to work(threads - 1), each in its own thread, and returns when all have ended. If the system
// has no more threads, it calls `absent()` once for each missing thread, so that the others do not wait for
// it at a barrier forever, and throws the reason after they have ended.
template <std::invocable<int> Work, std::invocable Absent>
void run_at_once(int threads, const Work& work, const Absent& absent) {
  std::exception_ptr reason;
  {
    std::vector<std::jthread> running;
    running.reserve(static_cast<std::size_t>(threads));
    for (int thread = 0; thread < threads; ++thread) {
      try {
        if (reason == nullptr) running.emplace_back(work, thread);
      } catch (...) {
        reason = std::current_exception();
      }
      if (reason != nullptr) absent();
    }
  }
  if (reason != nullptr) std::rethrow_exception(reason);
}

}  // namespace tmflow
