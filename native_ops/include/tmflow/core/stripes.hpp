// A lock for each block of a variable, and how updates and reads pass from block to block.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"
#include "tmflow/sync/thread_number.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// The parameter of strategies that have these locks.
inline constexpr Parameter kStripe{.name = "block",
                                   .fallback = "0",
                                   .summary = "elements per lock; 0: as fits the size of the variable",
                                   .high = 1'000'000'000};

// About a quarter of the variable, so that threads seldom meet; larger variables have more blocks of the
// longest length (docs/speed.md).
inline constexpr FittedBlock kFittedStripe{.share = 4, .shortest = 2048, .longest = 32'768};

// The consistency of updates of `n` elements.
inline Consistency stripe_consistency(const Parameters& given, std::size_t n) {
  const auto block = static_cast<std::size_t>(given.integer(kStripe.name));
  return consistency_in_parts(static_cast<std::int64_t>(kFittedStripe.of(block, n)), n);
}

// Locks of small blocks share cache lines: the locks of a variable of floats need at most an eighth of its
// memory (a quarter with blocks of one element), so that a lock of each row is not one more cache line that
// each row needs.
template <template <class> class Atom = std::atomic>
struct BasicStripes {
  using Lock = BasicSpinLock<Atom>;

  BasicStripes(std::size_t elements, std::size_t length)
      : blocks{elements, length},
        spacing(std::clamp(length * sizeof(float) / 8, sizeof(Lock), kCacheLine) / sizeof(Lock)),
        locks(blocks.count() * spacing) {}

  Lock& lock(std::size_t block) const noexcept { return locks[block * spacing]; }

  const Blocks blocks;
  const std::size_t spacing;  // of two locks
  mutable LinesOf<Lock> locks;
};

using Stripes = BasicStripes<>;

// Runs `section(first, count, row)` under the lock of each block that the update touches, once for each:
// the block's elements, and `row` as in for_each_touched. `lock_of(block)` is the block's lock, or an object
// that locks it. A thread holds one lock at a time.
//
// The order: from one end to the other, and the next time in the opposite direction, because the blocks that
// a thread touched last are still in its cache. Threads of odd and even number begin at opposite ends, so
// that two contending threads reverse at different ends. A block whose lock is owned is postponed, so that
// threads do not queue up one behind the other.
//
// Contention: the number of the update's blocks whose lock was owned when tried.
template <template <class> class Atom, class T, class LockOf, class Section>
void update_stripes(const BasicStripes<Atom>& stripes, const GradientDescent<T>& update, ThreadStats& stats,
                    const LockOf& lock_of, const Section& section) {
  const Blocks& blocks = stripes.blocks;
  const bool backwards = (ThreadNumber<Atom>::own() + static_cast<std::uint64_t>(stats.updates())) % 2 != 0;
  struct Postponed {
    std::size_t block, row;
  };
  const auto run = [&](std::size_t block, std::size_t row, auto... adopt) {
    decltype(auto) lock = lock_of(block);
    const TimedLockGuard held(lock, stats, adopt...);
    section(blocks.first(block), blocks.size(block), row);
  };

  std::array<Postponed, 16> put_off;
  std::size_t later = 0;
  std::int64_t taken = 0;
  for_each_touched(blocks, update, backwards, [&](std::size_t block, std::size_t row) {
    if (lock_of(block).try_lock()) return run(block, row, std::adopt_lock);
    ++taken;
    if (later < put_off.size()) {
      put_off[later++] = {block, row};
    } else {
      run(block, row);
    }
  });
  for (const auto& [block, row] : std::span(put_off).first(later)) run(block, row);
  stats.count(Contention::taken_blocks, taken);
}

// Runs `section(first, count)` under the lock of each block, one after another.
template <template <class> class Atom, class LockOf, class Section>
void read_stripes(const BasicStripes<Atom>& stripes, ThreadStats& stats, const LockOf& lock_of,
                  const Section& section) {
  for (std::size_t block = 0; block < stripes.blocks.count(); ++block) {
    decltype(auto) lock = lock_of(block);
    const TimedLockGuard held(lock, stats);
    section(stripes.blocks.first(block), stripes.blocks.size(block));
  }
}

// The same with the locks themselves: the update of a variable, and a read of it.
template <template <class> class Atom, class T>
void update_by_block(const BasicStripes<Atom>& stripes, const GradientDescent<T>& update,
                     std::span<T> variable, ThreadStats& stats) {
  update_stripes(
      stripes, update, stats, [&](std::size_t block) -> auto& { return stripes.lock(block); },
      [&](std::size_t first, std::size_t count, std::size_t row) { update(variable, first, count, row); });
}

template <template <class> class Atom, class T>
void read_by_block(const BasicStripes<Atom>& stripes, const Reading<T>& reading, std::span<const T> variable,
                   ThreadStats& stats) {
  read_stripes(
      stripes, stats, [&](std::size_t block) -> auto& { return stripes.lock(block); },
      [&](std::size_t first, std::size_t count) { reading(variable, first, count); });
}

}  // namespace tmflow
