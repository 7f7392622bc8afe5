// striped: fixed blocks of the variable, each with a lock.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"
#include "tmflow/sync/thread_number.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// Contract: updates of a block are serialised and none is lost; two blocks may see two updates in different
// orders. An update updates each block that it touches exactly once: it reaches each of them once, and
// processes postponed blocks at the end. An update of rows passes by all other blocks. With blocks of one
// row, each row has a lock. No thread ever waits while it holds a lock, so there is no deadlock. A snapshot
// has each block as it was between two updates of it. There is no ordering with readers outside the strategy,
// or with operations that replace the variable's memory: an update that overlaps an assignment of the whole
// variable may be lost.
//
// The order: from one end to the other, and the next time in the opposite direction, because the blocks that
// a thread touched last are still in its cache. Threads of odd and even number begin at opposite ends, so
// that two contending threads reverse at different ends. A block whose lock is owned is postponed, so that
// threads do not queue up one behind the other.
//
// Contention: the number of the update's blocks whose lock was owned when tried.
//
// Memory ordering: locking a block acquires, unlocking it releases, so each update of the block sees all
// earlier ones. The locks themselves: see LazyBySize.
template <template <class> class Atom = std::atomic>
class BasicStriped {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "block",
       .fallback = "2048",
       .summary = "elements per lock; 0: as fits the size of the variable",
       .high = 1'000'000'000},
  };
  // Four blocks, so that threads seldom meet, but not so many that locking them takes long (docs/speed.md).
  static constexpr FittedBlock kFitted{.share = 4, .shortest = 2048, .longest = 32'768};
  static constexpr StrategyInfo info{
      .name = "striped",
      .summary = "each block of the variable has a lock; an update takes and releases one after another",
      .updates = Consistency::block,
      .reads = Consistency::element,
      .snapshots = Consistency::block,
      .parameters = kParameters,
      .updates_over =
          [](const Parameters& given, std::size_t n) {
            const auto block = static_cast<std::size_t>(given.integer("block"));
            return consistency_in_parts(static_cast<std::int64_t>(kFitted.of(block, n)), n);
          },
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicStriped(std::size_t block) : block_(block) {}
  explicit BasicStriped(const Parameters& parameters)
      : BasicStriped(static_cast<std::size_t>(parameters.integer("block"))) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes = stripes_.of(memory.size(), memory.size(), kFitted.of(block_, memory.size()));
    const bool backwards = (ThreadNumber<Atom>::own() + static_cast<std::uint64_t>(stats.updates())) % 2 != 0;
    struct Postponed {
      std::size_t block, row;
    };
    const auto run = [&](std::size_t block, std::size_t row, auto... adopt) {
      const TimedLockGuard held(stripes.lock(block), stats, adopt...);
      update(memory, stripes.blocks.first(block), stripes.blocks.size(block), row);
    };

    std::array<Postponed, 16> put_off;
    std::size_t later = 0;
    std::int64_t taken = 0;
    for_each_touched(stripes.blocks, update, backwards, [&](std::size_t block, std::size_t row) {
      if (stripes.lock(block).try_lock()) return run(block, row, std::adopt_lock);
      ++taken;
      if (later < put_off.size()) {
        put_off[later++] = {block, row};
      } else {
        run(block, row);
      }
    });
    for (const auto& [block, row] : std::span(put_off).first(later)) run(block, row);
    stats.count(Contention::taken_blocks, taken);
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes = stripes_.of(memory.size(), memory.size(), kFitted.of(block_, memory.size()));
    for (std::size_t block = 0; block < stripes.blocks.count(); ++block) {
      const TimedLockGuard held(stripes.lock(block), stats);
      reading(memory, stripes.blocks.first(block), stripes.blocks.size(block));
    }
  }

 private:
  using Lock = BasicSpinLock<Atom>;

  // Locks of small blocks share cache lines: the locks of a variable of floats need at most an eighth of its
  // memory (a quarter with blocks of one element), so that a lock of each row is not one more cache line that
  // each row needs.
  struct Stripes {
    Stripes(std::size_t elements, std::size_t length)
        : blocks{elements, length},
          spacing(std::clamp(length * sizeof(float) / 8, sizeof(Lock), kCacheLine) / sizeof(Lock)),
          locks(blocks.count() * spacing) {}

    Lock& lock(std::size_t block) const noexcept { return locks[block * spacing]; }

    const Blocks blocks;
    const std::size_t spacing;  // of two locks
    mutable LinesOf<Lock> locks;
  };

  const std::size_t block_;
  LazyBySize<Stripes, Atom> stripes_;
};

using Striped = BasicStriped<>;

}  // namespace tmflow
