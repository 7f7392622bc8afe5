// Transactions that only read.
#pragma once

#include <cstddef>

#include "tmflow/stm/attempt.hpp"

namespace tmflow::stm {

// Needs no read set and no validation: everything that it reads belongs to its snapshot or is older, and the
// snapshot is that of its beginning. A newer stripe ends the attempt; the next one has a newer snapshot. It
// is a design like the others, but without `store`. Writers do not notice it.
template <class Manager, class Policy>
class ReadOnly : public Attempt<Manager, Policy> {
 public:
  using Base = Attempt<Manager, Policy>;
  using Base::Base;
  using typename Base::Lock;
  using typename Base::Words;

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool load(const T* address, T& value) {
    return load(address, 1, &value);
  }

  // `count` words of one stripe, with one check of the lock before all of them and one after.
  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool load(const T* address, std::size_t count, T* values) {
    if (this->has_failed()) return false;
    const Lock& lock = this->domain_.lock_of(stripe_of(address));
    for (;;) {
      const LockWord word = lock.load(std::memory_order_acquire);
      if (is_owned(word)) {
        if (!this->outlasts(lock, word, Cause::read_locked)) return false;
        continue;
      }
      if (Policy::kChecksVersion && version_of(word) > this->end_) return this->fail(Cause::read_invalid);
      Policy::at(Point::lock_seen);
      for (std::size_t i = 0; i < count; ++i) values[i] = Words::load_acquire(address + i);
      Policy::at(Point::word_seen);
      if (!Policy::kRechecksLock || lock.load(std::memory_order_relaxed) == word) return true;
    }
  }

  bool commit() noexcept {
    this->deactivate();
    return !this->has_failed();
  }
  void roll_back() noexcept { this->deactivate(); }
};

}  // namespace tmflow::stm
