// The audit: does a strategy keep every update? Counted exactly, not sampled.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/region.hpp"
#include "tmflow/measure/audit_code.hpp"
#include "tmflow/measure/audit_gradient.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow {

struct AuditPlan {
  int threads;            // 1 to kMaxThreads
  int updates;            // of each thread, each of the whole variable; at least 1
  std::int64_t elements;  // of the variable; 1 to kMaxElements

  // Once a thread has made all its updates, the others stop too, so that all contend as long as the clock
  // runs; the expected number is that of the updates made.
  bool stop_together = false;

  // Each thread writes its gradient again before every update, inside `seconds`. Otherwise it writes it once.
  bool fresh_gradient = false;

  static constexpr int kMaxThreads = 1024;
  static constexpr std::int64_t kMaxElements = 1'000'000'000;
};

struct AuditReport {
  std::int64_t made = 0;      // updates: threads * updates, unless they stopped together
  std::int64_t expected = 0;  // units: made * elements
  Tally tally;
  double seconds = 0;  // spent updating, by the wall clock, without set-up and decoding

  // The strategy's own counts. `counted` equals `made` if it counts correctly; without transactions the rest
  // is 0.
  std::int64_t counted = 0;
  std::int64_t commits = 0;
  std::int64_t fallbacks = 0;
  ThreadStats::Aborts aborts;
  bool attempts_known = true;  // every abort was counted

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

// Runs `plan` on `strategy`: all threads update one variable concurrently, in rounds that start and end at a
// barrier. At the end of a round, while all threads wait, one of them reads the sums and clears the variable.
// Propagates the first exception of the strategy, after the other threads have finished without that thread,
// and std::system_error if the system has not enough threads. Memory ordering: the barriers order the read
// after all updates of its round and before those of the next, and with it what each thread reports of
// itself. `first_is_through` publishes nothing but itself: relaxed.
template <std::floating_point T, class S>
AuditReport audit(S& strategy, const AuditPlan& plan) {
  check(plan);
  using Clock = std::chrono::steady_clock;
  const AuditCode<T> code(plan.threads);
  const int per_round = code.updates_per_round();
  LinesOf<T> variable(static_cast<std::size_t>(plan.elements), T{0});
  Padded<ArrayRegion<T>> padded{std::span<T>(variable)};
  ArrayRegion<T>& region = padded.value;
  std::vector<ThreadStats> stats(static_cast<std::size_t>(plan.threads));

  AuditReport report;
  Clock::time_point began;
  int left = plan.updates;
  std::vector<int> made(static_cast<std::size_t>(plan.threads));  // by each thread in this round
  Padded<std::atomic<bool>> first_is_through(false);
  std::barrier start(plan.threads, [&]() noexcept { began = Clock::now(); });
  std::barrier finish(plan.threads, [&]() noexcept {
    report.seconds += std::chrono::duration<double>(Clock::now() - began).count();
    typename AuditCode<T>::Made by_lane{};
    for (int thread = 0; thread < plan.threads; ++thread) {
      code.count(by_lane, thread, made[static_cast<std::size_t>(thread)]);
      report.made += made[static_cast<std::size_t>(thread)];
    }
    if constexpr (requires { strategy.settle(region); }) strategy.settle(region);
    for (std::size_t e = 0; e < variable.size(); ++e) report.tally += code.decode(variable[e], e, by_lane);
    std::ranges::fill(variable, T{0});
    if constexpr (requires { strategy.restart(region); }) strategy.restart(region);
    left -= std::min(left, per_round);
    first_is_through.value.store(false, std::memory_order_relaxed);
  });

  // Created here, where a lack of memory can be reported, and filled by its thread.
  std::vector<AuditGradient<T>> gradients;
  gradients.reserve(stats.size());
  for (int thread = 0; thread < plan.threads; ++thread) gradients.emplace_back(code, thread, variable.size());
  const auto work = [&](int thread) {
    const auto own = static_cast<std::size_t>(thread);
    AuditGradient<T>& gradient = gradients[own];
    gradient.write();
    const GradientDescent<T> update{.alpha = -1, .delta = gradient.values()};
    while (left > 0) {
      start.arrive_and_wait();
      const int updates = std::min(left, per_round);
      int done = 0;
      while (done < updates && !first_is_through.value.load(std::memory_order_relaxed)) {
        if (plan.fresh_gradient) gradient.write();
        strategy.apply(region, update, stats[own]);
        ++done;
      }
      if (plan.stop_together) first_is_through.value.store(true, std::memory_order_relaxed);
      made[own] = done;
      finish.arrive_and_wait();
    }
  };
  std::once_flag first;
  std::exception_ptr thrown;
  const auto drop_out = [&] {
    start.arrive_and_drop();
    finish.arrive_and_drop();
  };
  const auto guarded = [&](int thread) {
    try {
      work(thread);
    } catch (...) {
      std::call_once(first, [&] { thrown = std::current_exception(); });
      drop_out();
    }
  };
  run_at_once(plan.threads, guarded, drop_out);
  if (thrown) std::rethrow_exception(thrown);
  report.expected = report.made * plan.elements;
  for (const ThreadStats& own : stats) {
    report.counted += own.updates();
    report.commits += own.commits();
    report.fallbacks += own.fallbacks();
    for (const auto& [status, count] : own.aborts()) report.aborts[status] += count;
    report.attempts_known &= known_attempts(own).has_value();
  }
  return report;
}

}  // namespace tmflow
