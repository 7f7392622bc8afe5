// A mutex of the strategy's own around the whole update: the part that such strategies share.
#pragma once

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: as `lock`, but the readers and whoever replaces the variable's memory take another mutex, so they
// neither wait for an update nor hold one up; an update that overlaps an assignment of the whole variable may
// be lost. Memory ordering: that of M, whose unlocking releases the update and whose next locking acquires
// it.
template <class M>
class OwnMutex {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    {
      const TimedLockGuard held(mutex_, stats);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const TimedLockGuard held(mutex_, stats);
    reading(memory, 0, memory.size());
  }

 private:
  M mutex_;
};

}  // namespace tmflow
