// The audit: does a strategy keep every update? Counted exactly, not sampled.
#pragma once

#include <algorithm>
#include <barrier>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tmflow/audit_code.hpp"
#include "tmflow/kernel.hpp"
#include "tmflow/region.hpp"
#include "tmflow/stats.hpp"

namespace tmflow {

struct AuditPlan {
  int threads;            // 1 to kMaxThreads
  int updates;            // of each thread, each of the whole variable; at least 1
  std::int64_t elements;  // of the variable; 1 to kMaxElements

  static constexpr int kMaxThreads = 1024;
  static constexpr std::int64_t kMaxElements = 1'000'000'000;
};

struct AuditReport {
  std::int64_t expected = 0;  // units: threads * updates * elements
  Tally tally;
  std::int64_t counted = 0;  // updates that the strategy counted; threads * updates if it counts right
  double seconds = 0;        // spent updating, by the wall clock, without set-up and decoding

  bool clean() const { return tally.lost == 0 && tally.doubled == 0 && tally.corrupt == 0; }
  double lost_fraction() const { return static_cast<double>(tally.lost) / static_cast<double>(expected); }
};

inline void check(const AuditPlan& plan) {
  if (plan.threads < 1 || plan.threads > AuditPlan::kMaxThreads) {
    throw std::invalid_argument("threads must be 1 to " + std::to_string(AuditPlan::kMaxThreads) + ", not " +
                                std::to_string(plan.threads));
  }
  if (plan.updates < 1)
    throw std::invalid_argument("updates must be at least 1, not " + std::to_string(plan.updates));
  if (plan.elements < 1 || plan.elements > AuditPlan::kMaxElements) {
    throw std::invalid_argument("elements must be 1 to " + std::to_string(AuditPlan::kMaxElements) +
                                ", not " + std::to_string(plan.elements));
  }
}

// Runs `plan` on `strategy`: all threads update one variable at once, in rounds that start and end at a
// barrier; at the end of a round, while all threads wait, one of them reads the sums and clears the variable.
// Passes on the first exception of the strategy, after the other threads have finished without that one.
// Memory ordering: the barriers order the reading after all updates of its round and before those of the
// next.
template <std::floating_point T, class S>
AuditReport audit(S& strategy, const AuditPlan& plan) {
  check(plan);
  using Clock = std::chrono::steady_clock;
  const AuditCode<T> code(plan.threads);
  const int per_round = code.updates_per_round();
  std::vector<T> variable(static_cast<std::size_t>(plan.elements), T{0});
  ArrayRegion<T> region(variable);
  std::vector<ThreadStats> stats(static_cast<std::size_t>(plan.threads));

  AuditReport report;
  report.expected = std::int64_t{plan.threads} * plan.updates * plan.elements;
  Clock::time_point began;
  int left = plan.updates;
  std::barrier start(plan.threads, [&]() noexcept { began = Clock::now(); });
  std::barrier finish(plan.threads, [&]() noexcept {
    report.seconds += std::chrono::duration<double>(Clock::now() - began).count();
    const int updates = std::min(left, per_round);
    for (std::size_t e = 0; e < variable.size(); ++e) report.tally += code.decode(variable[e], e, updates);
    std::ranges::fill(variable, T{0});
    left -= updates;
  });

  // Made here, where a want of memory can be told, and filled by its thread.
  std::vector<std::vector<T>> deltas(stats.size(), std::vector<T>(variable.size()));
  const auto work = [&](int thread) {
    std::vector<T>& delta = deltas[static_cast<std::size_t>(thread)];
    for (std::size_t e = 0; e < delta.size(); ++e) delta[e] = code.unit(thread, e);
    const GradientDescent<T> update{.alpha = -1, .delta = delta};
    while (left > 0) {
      start.arrive_and_wait();
      for (int u = std::min(left, per_round); u > 0; --u) {
        strategy.apply(region, update, stats[static_cast<std::size_t>(thread)]);
      }
      finish.arrive_and_wait();
    }
  };
  std::once_flag first;
  std::exception_ptr thrown;
  const auto guarded = [&](int thread) {
    try {
      work(thread);
    } catch (...) {
      std::call_once(first, [&] { thrown = std::current_exception(); });
      start.arrive_and_drop();
      finish.arrive_and_drop();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < plan.threads; ++thread) threads.emplace_back(guarded, thread);
  }
  if (thrown) std::rethrow_exception(thrown);
  for (const ThreadStats& own : stats) report.counted += own.updates();
  return report;
}

}  // namespace tmflow
