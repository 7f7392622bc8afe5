// spin_then_mutex: the variable's own mutex, tried for a while before it is waited for.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// Contract: that of `lock`. It tells what merely spinning buys: elision spins too while the mutex is taken.
// Memory ordering: that of the mutex.
template <int kTries = 1000>
struct BasicSpinThenMutex {
  static constexpr StrategyInfo info{
      .name = "spin_then_mutex",
      .summary = "as lock, but the mutex is tried a thousand times before it is waited for",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .snapshots = Promise::tensor,
      .fetches_under_mutex = true,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    {
      TriedFirst mutex{region.mutex()};
      const TimedLockGuard held(mutex, stats);
      const auto memory = region.memory(Holding::mutex);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }

  template <Region R>
  static void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    TriedFirst mutex{region.mutex()};
    const TimedLockGuard held(mutex, stats);
    const auto memory = region.memory(Holding::mutex);
    reading(memory, 0, memory.size());
  }

 private:
  template <class Mutex>
  struct TriedFirst {
    Mutex& its;

    void lock() {
      for (int tries = 0; tries < kTries; ++tries) {
        if (its.try_lock()) return;
        pause_processor();
      }
      its.lock();
    }
    void unlock() { its.unlock(); }
  };
};

using SpinThenMutex = BasicSpinThenMutex<>;

}  // namespace tmflow
