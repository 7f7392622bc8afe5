// A strategy's own mutex around the update, or around each part of it: the common part of such strategies.
#pragma once

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: as `lock`, but readers and operations that replace the variable's memory lock another mutex. They
// neither wait for an update nor delay one, and an update that overlaps an assignment of the whole variable
// may be lost. Memory ordering: that of M: an unlock releases the update and the next lock acquires it.
// With a chunk, all of this holds for each chunk of elements.
template <class M>
class OwnMutex {
 public:
  OwnMutex() = default;
  explicit OwnMutex(std::size_t chunk) : chunk_(chunk) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    for_each_chunk(update, chunk_, [&](std::size_t first, std::size_t count, std::size_t row) {
      const TimedLockGuard held(mutex_, stats);
      update(memory, first, count, row);
    });
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
  const std::size_t chunk_ = 0;
};

}  // namespace tmflow
