// An update as one transaction, if it fits, and otherwise block by block under locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/stripes.hpp"
#include "tmflow/htm/elision.hpp"
#include "tmflow/probe/update_capacity.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::htm {

// The locks of the blocks that an update touches. Its transaction subscribes to all of them. The update never
// holds them together, so this has no `lock`.
template <class T, template <class> class Atom = std::atomic>
class TouchedLocks {
 public:
  TouchedLocks(const BasicStripes<Atom>& stripes, const GradientDescent<T>& update)
      : stripes_(stripes), update_(update) {}

  bool taken() const noexcept {
    bool any = false;
    for_each_word([&](const Atom<bool>* word) { any = any || word->load(std::memory_order_acquire); });
    return any;
  }

  template <class Visit>
  void for_each_word(const Visit& visit) const {
    for_each_touched(stripes_.blocks, update_, false,
                     [&](std::size_t block, std::size_t) { stripes_.lock(block).for_each_word(visit); });
  }

 private:
  const BasicStripes<Atom>& stripes_;
  const GradientDescent<T>& update_;
};

// Waits for one lock after another, and not for a moment at which all are free: other threads may always hold
// one of many. If a lock is taken again meanwhile, the attempt aborts and costs part of the budget, so this
// goes on only as long as the budget.
template <class T, template <class> class Atom>
void wait_until_free(const TouchedLocks<T, Atom>& locks) noexcept {
  locks.for_each_word([](const Atom<bool>* word) {
    for (Turn turn; word->load(std::memory_order_acquire); ++turn) Waiting<Atom>::once(turn);
  });
}

// Whether the lines of an update, with those of its optimiser's slots, its gradient and the locks of its
// blocks, are at most four fifths of what one transaction can hold: beyond that, the first transactions of a
// real processor fail, because its cache holds other lines too and does not replace exactly the oldest
// (docs/strategies/emulated.md, "How far it is off").
template <class T>
bool fits(const GradientDescent<T>& update, const probe::UpdateCapacity& capacity, const Blocks& blocks) {
  const auto lines = [shift = std::countr_zero(capacity.line_bytes)](std::size_t elements) {
    return ((elements * sizeof(T) - 1) >> shift) + 1;
  };
  const std::size_t arrays = 1 + (update.slots != nullptr ? update.slots->count() : 0);
  const std::size_t touched = update.touched();
  if (touched == 0) return true;
  std::size_t changed = lines(touched), read = changed, locks = blocks.count();
  if (const auto* const rows = update.rows) {
    // A row that does not begin with a line, or with a block, may touch one more.
    const std::size_t width = rows->width, n = rows->rows.size();
    const std::size_t more = width * sizeof(T) % capacity.line_bytes != 0 ? 1 : 0;
    changed = n * (lines(width) + more);
    read += n * sizeof(rows->rows[0]) / capacity.line_bytes + 1;
    locks =
        std::min(locks, n * (width % blocks.length == 0 ? width / blocks.length : width / blocks.length + 2));
  } else if (update.dense != nullptr) {
    read = lines(update.dense->input.size()) + lines(update.dense->output.size());
  }
  const std::size_t written = arrays * changed;
  read += locks;
  return 5 * written <= 4 * capacity.written_lines && 5 * (written + read) <= 4 * capacity.touched_lines;
}

// Makes an update once: `whole(budget)` tries it as one transaction and returns whether that has committed;
// `by_block()` makes it block by block. An update that does not fit has no budget.
template <class Whole, class ByBlock>
void update_whole_or_by_block(bool fits, Budget budget, ThreadStats& stats, const Whole& whole,
                              const ByBlock& by_block) {
  if (!fits) budget.attempts = 0;
  if (!whole(budget)) {
    by_block();
    stats.count_fallback();
  }
  stats.count_update();
}

}  // namespace tmflow::htm
