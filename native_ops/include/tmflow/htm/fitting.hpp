// An update as one transaction, if it fits, and otherwise block by block under locks.
#pragma once

#include <atomic>
#include <cstddef>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/stripes.hpp"
#include "tmflow/htm/elision.hpp"
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

// Makes an update once: `whole(budget)` tries it as one transaction and returns whether that has committed;
// `by_block()` makes it block by block. An update that touches more than `fits` elements has no budget.
template <class T, class Whole, class ByBlock>
void update_if_fits(const GradientDescent<T>& update, std::size_t fits, Budget budget, ThreadStats& stats,
                    const Whole& whole, const ByBlock& by_block) {
  if (update.touched() > fits) budget.attempts = 0;
  if (!whole(budget)) {
    by_block();
    stats.count_fallback();
  }
  stats.count_update();
}

}  // namespace tmflow::htm
