// spin_then_mutex: the variable's own mutex, tried for a while before it is waited for.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/spin_lock.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: that of `lock`. It tells what merely spinning buys: elision spins too while the mutex is taken.
// Memory ordering: that of the mutex.
struct SpinThenMutex {
  static constexpr int kTries = 1000;

  static constexpr StrategyInfo info{
      .name = "spin_then_mutex",
      .summary = "as lock, but the mutex is tried a thousand times before it is waited for",
      .updates = Promise::tensor,
      .reads = Promise::element,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    {
      std::unique_lock held(region.mutex(), std::defer_lock);
      for (int tries = 0; tries < kTries && !held.try_lock(); ++tries) pause_processor();
      if (!held.owns_lock()) held.lock();
      const auto memory = region.memory(Holding::mutex);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }
};

}  // namespace tmflow
