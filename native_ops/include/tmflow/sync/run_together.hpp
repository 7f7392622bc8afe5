// Threads that begin together.
#pragma once

#include <concepts>
#include <exception>
#include <thread>
#include <vector>

namespace tmflow {

// Runs work(0) to work(threads - 1), each in a thread of its own, and returns when all have ended. Where the
// system has no more threads, `absent()` is called once for each one that is missing, lest the others wait
// for it at a barrier forever, and the reason is thrown after they have ended.
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
