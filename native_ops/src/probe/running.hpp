// Runs the same work on several processors at the same time, for a given duration.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <exception>
#include <mutex>
#include <vector>

#include "../train/pinning.hpp"
#include "tmflow/probe/budget.hpp"
#include "tmflow/sync/run_together.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::probe {

// Runs work(i, barrier) at the same time on the processors cpus[i], each in a thread pinned there. If one
// thread cannot be pinned, none runs its work, because it would wait for that thread. Rethrows an exception
// of a thread; the barrier then continues without that thread.
template <class Work>
void run_on(const std::vector<int>& cpus, const Work& work) {
  std::barrier<> together(static_cast<std::ptrdiff_t>(cpus.size()));
  std::atomic<int> settled{0};
  std::mutex guard;
  std::exception_ptr failed;
  run_at_once(
      static_cast<int>(cpus.size()),
      [&](int i) {
        try {
          train::stay_on(cpus[static_cast<std::size_t>(i)]);
          ++settled;
          together.arrive_and_wait();
          if (settled == static_cast<int>(cpus.size())) work(i, together);
        } catch (...) {
          {
            const std::lock_guard held(guard);
            failed = std::current_exception();
          }
          together.arrive_and_drop();
        }
      },
      [&] { together.arrive_and_drop(); });
  if (failed != nullptr) std::rethrow_exception(failed);
}

// The combined throughput of the processors. Each creates `prepare(i)`, which is not timed, and calls the
// result repeatedly; it returns the amount of work done.
template <class Prepare>
double rate_on(const std::vector<int>& cpus, double seconds, const Prepare& prepare) {
  std::mutex guard;
  double rate = 0;
  run_on(cpus, [&](int i, std::barrier<>& together) {
    auto work = prepare(i);
    together.arrive_and_wait();
    double done = 0, took = 0;
    const auto began = Clock::now();
    do {
      done += work();
    } while ((took = seconds_since(began)) < seconds);
    const std::lock_guard held(guard);
    rate += done / took;
  });
  return rate;
}

// The middle sample; for an even number, the upper of the two.
inline double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

}  // namespace tmflow::probe
