// A forced schedule of two threads: both read the variable before either writes it, unless synchronisation
// prevents that.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <vector>

#include "tmflow/measure/audit.hpp"

namespace tmflow::seeded {

// Two threads wait for each other, again and again. A thread that waits in vain (the other is kept out)
// continues after a timeout, and from then on nobody waits. An audit that should fail then passes, and its
// test reports that.
class Meeting {
 public:
  explicit Meeting(std::chrono::milliseconds patience) : patience_(patience) {}

  void wait() {
    std::unique_lock held(mutex_);
    if (in_vain_) return;
    const auto turn = turn_;
    if (waiting_) {
      waiting_ = false;
      ++turn_;
      met_.notify_one();
      return;
    }
    waiting_ = true;
    if (met_.wait_for(held, patience_, [&] { return turn_ != turn; })) return;
    in_vain_ = true;
  }

 private:
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable met_;
  bool waiting_ = false, in_vain_ = false;
  int turn_ = 0;
};

// Of the audit in progress; global because a kernel is a plain function.
inline Meeting* meeting = nullptr;

// Atomic accesses, so that the lost update itself is no data race for ThreadSanitizer.
template <class T>
void read_meet_write(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  std::vector<T> seen(n);
  for (std::size_t i = 0; i < n; ++i) seen[i] = std::atomic_ref(variable[i]).load(std::memory_order_relaxed);
  meeting->wait();
  for (std::size_t i = 0; i < n; ++i) {
    std::atomic_ref(variable[i]).store(seen[i] - alpha * delta[i], std::memory_order_relaxed);
  }
  meeting->wait();
}

// Passes that kernel to the strategy.
template <class S>
struct InStep {
  S& strategy;

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    strategy.apply(region, {update.alpha, update.delta, read_meet_write<typename R::Value>}, stats);
  }

  template <Region R>
  void settle(R& region) {
    if constexpr (requires { strategy.settle(region); }) strategy.settle(region);
  }
  template <Region R>
  void restart(R& region) {
    if constexpr (requires { strategy.restart(region); }) strategy.restart(region);
  }
};

inline constexpr AuditPlan kInStep{.threads = 2, .updates = 50, .elements = 20};

// If both threads enter at the same time, exactly one of every two updates is lost.
template <class T, class S>
AuditReport audit_in_step(S& strategy, std::chrono::milliseconds patience = std::chrono::seconds(30)) {
  Meeting own(patience);
  meeting = &own;
  InStep<S> forced{strategy};
  return audit<T>(forced, kInStep);
}

}  // namespace tmflow::seeded
