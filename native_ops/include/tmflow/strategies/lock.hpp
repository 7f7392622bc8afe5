// lock: the variable's own mutex around the whole update, as TensorFlow's use_locking=True.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: updates of a variable are serialised, none is lost. Other users of the variable's mutex
// (TensorFlow's executor locks it briefly to read a reference variable) wait for the update in progress, but
// may read the memory later without the mutex, so readers see elements of different updates mixed. Memory
// ordering: an unlock releases the update, the next lock acquires it.
struct Lock {
  static constexpr StrategyInfo info{
      .name = "lock",
      .summary = "the variable's mutex is held for the whole update",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
      .fetches_under_mutex = true,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    {
      const TimedLockGuard held(region.mutex(), stats);
      const auto memory = region.memory(Holding::mutex);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }

  template <Region R>
  static void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const TimedLockGuard held(region.mutex(), stats);
    const auto memory = region.memory(Holding::mutex);
    reading(memory, 0, memory.size());
  }
};

}  // namespace tmflow
