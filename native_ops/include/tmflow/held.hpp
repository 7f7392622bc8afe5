// A lock that is held for a scope, and how long that took.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "tmflow/stats.hpp"

namespace tmflow {

// As std::lock_guard; where the worker times its locks, the time that it waited for the mutex and the time
// that it held it are added to its counters.
template <class Mutex>
class [[nodiscard]] HeldLock {
 public:
  HeldLock(Mutex& mutex, ThreadStats& stats)
      : mutex_(mutex), stats_(stats.times_locks() ? &stats : nullptr), asked_(now()) {
    mutex_.lock();
    taken_ = now();
  }
  // Of a mutex that was tried and is taken: nobody waited for it.
  HeldLock(Mutex& mutex, ThreadStats& stats, std::adopt_lock_t)
      : mutex_(mutex), stats_(stats.times_locks() ? &stats : nullptr), asked_(now()), taken_(asked_) {}
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

  ~HeldLock() {
    const Clock::time_point given_back = now();
    mutex_.unlock();
    if (stats_ != nullptr) stats_->add_lock_times(ns(asked_, taken_), ns(taken_, given_back));
  }

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point now() const noexcept { return stats_ != nullptr ? Clock::now() : Clock::time_point(); }
  static std::int64_t ns(Clock::time_point from, Clock::time_point to) noexcept {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count();
  }

  Mutex& mutex_;
  ThreadStats* const stats_;
  const Clock::time_point asked_;
  Clock::time_point taken_;
};

// A scope in which the worker waits for a lock, or for what another worker does under one; timed likewise.
class [[nodiscard]] Waited {
 public:
  explicit Waited(ThreadStats& stats) : stats_(stats.times_locks() ? &stats : nullptr) {
    if (stats_ != nullptr) began_ = std::chrono::steady_clock::now();
  }
  Waited(const Waited&) = delete;
  Waited& operator=(const Waited&) = delete;

  ~Waited() {
    if (stats_ == nullptr) return;
    const auto waited = std::chrono::steady_clock::now() - began_;
    stats_->add_lock_times(std::chrono::duration_cast<std::chrono::nanoseconds>(waited).count(), 0);
  }

 private:
  ThreadStats* const stats_;
  std::chrono::steady_clock::time_point began_;
};

}  // namespace tmflow
