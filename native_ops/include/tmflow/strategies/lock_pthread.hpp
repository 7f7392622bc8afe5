// lock_pthread: a std::mutex of ours around the whole update.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: as `lock`, but the readers and whoever replaces the variable's memory take another mutex, so they
// neither wait for an update nor hold one up; an update that overlaps an assignment of the whole variable may
// be lost. A pthread mutex is one that glibc can elide, which TensorFlow's own is not. Memory ordering:
// unlocking releases the update, the next locking acquires it.
class LockPthread {
 public:
  static constexpr StrategyInfo info{
      .name = "lock_pthread",
      .summary = "a pthread mutex of ours is held for the whole update",
      .updates = Promise::tensor,
      .reads = Promise::element,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    {
      const std::lock_guard held(mutex_);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }

 private:
  std::mutex mutex_;
};

}  // namespace tmflow
