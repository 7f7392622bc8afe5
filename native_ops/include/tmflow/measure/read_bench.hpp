// The cost of reads during updates, and whether the read values ever existed.
#pragma once

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/region.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow {

struct ReadPlan {
  int readers;             // threads, at least 1
  int writers;             // threads, 0 or more
  int reads;               // of each reader; once one has made them all, all threads stop
  std::int64_t elements;   // of the variable; 1 to AuditPlan::kMaxElements
  bool consistent = true;  // through the strategy; else a plain copy
};

struct ReadReport {
  std::int64_t reads = 0, updates = 0;  // made while the clock ran
  double seconds = 0;
  std::int64_t checked = 0, torn = 0;  // reads checked outside the timed part, and the torn ones among them
};

// Throws std::invalid_argument for numbers that are out of range.
inline const ReadPlan& checked(const ReadPlan& plan) {
  const auto within = [](const char* what, std::int64_t value, std::int64_t low, std::int64_t high) {
    if (value >= low && value <= high) return;
    throw std::invalid_argument(std::string(what) + " must be " + std::to_string(low) + " to " +
                                std::to_string(high) + ", not " + std::to_string(value));
  };
  within("readers", plan.readers, 1, AuditPlan::kMaxThreads);
  within("writers", plan.writers, 0, AuditPlan::kMaxThreads);
  within("reads", plan.reads, 1, 1'000'000'000);
  within("elements", plan.elements, 1, AuditPlan::kMaxElements);
  return plan;
}

// One variable whose elements are all 0 at first. Every update adds 1 to each, so a copy of the variable as
// it was between two updates has equal elements. `run` runs twice: first to check the reads, then to time
// them.
// the clock.
//
// Memory ordering: `over_` publishes nothing but itself; what a thread reports about itself is read after the
// thread was joined.
template <class S>
class ReadBench {
 public:
  ReadBench(S& strategy, const ReadPlan& plan)
      : strategy_(strategy), plan_(checked(plan)), variable_(static_cast<std::size_t>(plan.elements), 0.0f) {
    read_once(own_of(0));  // throws if the strategy has no such read
  }

  ReadReport run() {
    ReadReport report;
    const Phase looked = phase(true);
    report.checked = looked.reads;
    report.torn = looked.torn;
    const Phase timed = phase(false);
    report.reads = timed.reads;
    report.updates = timed.updates;
    report.seconds = timed.seconds;
    return report;
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Phase {
    std::int64_t reads = 0, updates = 0, torn = 0;
    double seconds = 0;
  };

  struct alignas(kCacheLine) Own {
    LinesOf<float> copy;
    ThreadStats stats;
    Phase phase;
    Clock::time_point end;
  };

  // A float counts exactly up to this number.
  static constexpr std::int64_t kMostUpdates = 1 << 24;

  Own& own_of(int thread) {
    while (own_.size() <= static_cast<std::size_t>(thread)) own_.push_back(std::make_unique<Own>());
    Own& own = *own_[static_cast<std::size_t>(thread)];
    own.copy.resize(variable_.size());
    return own;
  }

  void read_once(Own& own) {
    const Reading<float> reading{.into = own.copy};
    if (plan_.consistent) {
      strategy_.read(region_, reading, own.stats);
    } else {
      const auto memory = region_.memory(Holding::nothing);
      reading(memory, 0, memory.size());
    }
  }

  void read(Own& own, bool look) {
    while (own.phase.reads < plan_.reads && !over_.value.load(std::memory_order_relaxed)) {
      read_once(own);
      ++own.phase.reads;
      if (look && std::ranges::any_of(own.copy, [&](float e) { return e != own.copy.front(); }))
        ++own.phase.torn;
    }
    over_.value.store(true, std::memory_order_relaxed);
  }

  void write(Own& own, bool look) {
    const GradientDescent<float> update{.alpha = -1, .delta = ones_};
    const std::int64_t most = kMostUpdates / plan_.writers;
    while (!over_.value.load(std::memory_order_relaxed)) {
      if (look && own.phase.updates == most) {
        over_.value.store(true, std::memory_order_relaxed);
        break;
      }
      strategy_.apply(region_, update, own.stats);
      ++own.phase.updates;
    }
  }

  Phase phase(bool look) {
    const int threads = plan_.readers + plan_.writers;
    for (int thread = 0; thread < threads; ++thread) own_of(thread).phase = {};
    over_.value.store(false, std::memory_order_relaxed);
    Clock::time_point began;
    std::barrier start(threads, [&]() noexcept { began = Clock::now(); });
    std::once_flag first;
    std::exception_ptr thrown;
    const auto work = [&](int thread) {
      Own& own = *own_[static_cast<std::size_t>(thread)];
      start.arrive_and_wait();
      try {
        thread < plan_.readers ? read(own, look) : write(own, look);
      } catch (...) {
        std::call_once(first, [&] { thrown = std::current_exception(); });
        over_.value.store(true, std::memory_order_relaxed);
      }
      own.end = Clock::now();
    };
    run_at_once(threads, work, [&] { start.arrive_and_drop(); });
    if (thrown) std::rethrow_exception(thrown);
    Phase all;
    Clock::time_point end = began;
    for (int thread = 0; thread < threads; ++thread) {
      const Own& own = *own_[static_cast<std::size_t>(thread)];
      all.reads += own.phase.reads;
      all.updates += own.phase.updates;
      all.torn += own.phase.torn;
      end = std::max(end, own.end);
    }
    all.seconds = std::chrono::duration<double>(end - began).count();
    return all;
  }

  S& strategy_;
  const ReadPlan plan_;
  LinesOf<float> variable_;
  const LinesOf<float> ones_ = LinesOf<float>(variable_.size(), 1.0f);
  ArrayRegion<float> region_{std::span<float>(variable_)};
  Padded<std::atomic<bool>> over_{false};
  std::vector<std::unique_ptr<Own>> own_;
};

}  // namespace tmflow
