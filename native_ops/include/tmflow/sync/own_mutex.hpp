// A strategy's own mutex around the whole update: the common part of such strategies.
#pragma once

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: as `lock`, but readers and operations that replace the variable's memory lock another mutex. They
// neither wait for an update nor delay one, and an update that overlaps an assignment of the whole variable
// may be lost. Memory ordering: that of M: an unlock releases the update and the next lock acquires it.
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
