// A lock that is held for a scope, and how long that took.
#pragma once

#include <chrono>
#include <cstdint>

#include "tmflow/stats.hpp"

namespace tmflow {

// When a lock was asked for, taken and given back; added to the worker's counters, where it times its locks.
class LockTimes {
 public:
  explicit LockTimes(ThreadStats& stats) : stats_(stats.times_locks() ? &stats : nullptr), asked_(now()) {}

  void taken() noexcept { taken_ = now(); }
  void given_back() noexcept {
    if (stats_ != nullptr) stats_->add_lock_times(ns(asked_, taken_), ns(taken_, now()));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point now() const noexcept { return stats_ != nullptr ? Clock::now() : Clock::time_point(); }
  static std::int64_t ns(Clock::time_point from, Clock::time_point to) noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
  }

  ThreadStats* const stats_;
  const Clock::time_point asked_;
  Clock::time_point taken_;
};

// As std::lock_guard; where the worker times its locks, the time that it waited for the mutex and the time
// that it held it are added to its counters.
template <class Mutex>
class [[nodiscard]] HeldLock {
 public:
  HeldLock(Mutex& mutex, ThreadStats& stats) : mutex_(mutex), times_(stats) {
    mutex_.lock();
    times_.taken();
  }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  ~HeldLock() {
    mutex_.unlock();
    times_.given_back();
  }

 private:
  Mutex& mutex_;
  LockTimes times_;
};

}  // namespace tmflow
