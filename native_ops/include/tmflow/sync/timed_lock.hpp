// A scoped lock that measures its times.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "tmflow/measure/counters.hpp"

namespace tmflow {

// When a lock was requested, locked and unlocked; added to the worker's counters if it times its locks.
class LockTimer {
 public:
  explicit LockTimer(ThreadStats& stats)
      : stats_(stats.times_locks() ? &stats : nullptr), asked_(now()), taken_(asked_) {}

  void taken() noexcept { taken_ = now(); }
  void given_back() noexcept {
    if (stats_ != nullptr) stats_->add_lock_times(ns(asked_, taken_), ns(taken_, now()));
  }

  // Another thread has done the work for which the lock was requested.
  void given_up() noexcept {
    if (stats_ != nullptr) stats_->add_lock_times(ns(asked_, now()), 0);
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

// Like std::lock_guard. If the worker times its locks, the times that it waited for the mutex and held it are
// added to its counters.
template <class Mutex>
class [[nodiscard]] TimedLockGuard {
 public:
  TimedLockGuard(Mutex& mutex, ThreadStats& stats) : mutex_(mutex), times_(stats) {
    mutex_.lock();
    times_.taken();
  }
  // For a mutex that try_lock has locked: there was no wait.
  TimedLockGuard(Mutex& mutex, ThreadStats& stats, std::adopt_lock_t) : mutex_(mutex), times_(stats) {}
  TimedLockGuard(const TimedLockGuard&) = delete;
  TimedLockGuard& operator=(const TimedLockGuard&) = delete;

  ~TimedLockGuard() {
    mutex_.unlock();
    times_.given_back();
  }

 private:
  Mutex& mutex_;
  LockTimer times_;
};

// A scope in which the worker waits for a lock, or for work that another worker does under one; timed in the
// same way.
class [[nodiscard]] TimedWait {
 public:
  explicit TimedWait(ThreadStats& stats) : times_(stats) {}
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;
  ~TimedWait() { times_.given_up(); }

 private:
  LockTimer times_;
};

}  // namespace tmflow
