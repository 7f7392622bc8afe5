// spin_then_mutex: the variable's own mutex, tried for a while before the thread blocks.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// Contract: that of `lock`. It shows the effect of spinning alone: elision spins too while the mutex is
// locked. Memory ordering: that of the mutex.
template <int kTries = 1000>
struct BasicSpinThenMutex {
  static constexpr StrategyInfo info{
      .name = "spin_then_mutex",
      .summary = "like lock, but spins on the mutex for a thousand tries before it blocks",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
      .fetches_under_mutex = [](const Parameters&) { return true; },
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
    Mutex& mutex;

    void lock() {
      for (int tries = 0; tries < kTries; ++tries) {
        if (mutex.try_lock()) return;
        pause_processor();
      }
      mutex.lock();
    }
    void unlock() { mutex.unlock(); }
  };
};

using SpinThenMutex = BasicSpinThenMutex<>;

}  // namespace tmflow
