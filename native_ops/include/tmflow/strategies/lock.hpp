// lock: the variable's own mutex around the update, as TensorFlow's use_locking=True, or around each part of
// it.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: updates of a variable are serialised, none is lost. Other users of the variable's mutex
// (TensorFlow's executor locks it briefly to read a reference variable) wait for the update in progress, but
// may read the memory later without the mutex, so readers see elements of different updates mixed. Memory
// ordering: an unlock releases the update, the next lock acquires it.
//
// With a chunk, this holds for each chunk of elements, and the memory is fetched before the first one: an
// update that overlaps an assignment of the whole variable may be lost.
class Lock {
 public:
  static constexpr Parameter kParameters[] = {kChunk};
  static constexpr StrategyInfo info{
      .name = "lock",
      .summary = "the variable's mutex is held for the whole update, or for each chunk of it",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,  // with a chunk: of each chunk, as for updates
      .parameters = kParameters,
      .fetches_under_mutex = [](const Parameters& given) { return given.integer("chunk") == 0; },
      .updates_over = [](const Parameters& given,
                         std::size_t n) { return consistency_in_parts(given.integer("chunk"), n); },
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  Lock() = default;
  explicit Lock(const Parameters& parameters) : chunk_(chunk_of(parameters)) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) const {
    if (chunk_ == 0) {
      const TimedLockGuard held(region.mutex(), stats);
      const auto memory = region.memory(Holding::mutex);
      update(memory, 0, memory.size());
    } else {
      const auto memory = region.memory(Holding::nothing);
      for_each_chunk(update, chunk_, [&](std::size_t first, std::size_t count, std::size_t row) {
        const TimedLockGuard held(region.mutex(), stats);
        update(memory, first, count, row);
      });
    }
    stats.count_update();
  }

  template <Region R>
  static void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const TimedLockGuard held(region.mutex(), stats);
    const auto memory = region.memory(Holding::mutex);
    reading(memory, 0, memory.size());
  }

 private:
  const std::size_t chunk_ = 0;
};

}  // namespace tmflow
