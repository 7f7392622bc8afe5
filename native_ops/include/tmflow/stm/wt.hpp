// wt: write-through, encounter-time locking, undo log.
#pragma once

#include "tmflow/stm/encounter.hpp"

namespace tmflow::stm {

// Locks a stripe when it is first written, saves the old words, and writes to memory immediately. A commit
// only releases the locks; an abort restores the words.
template <class Manager, class Policy>
class Wt : public Encounter<Manager, Policy> {
 public:
  using Base = Encounter<Manager, Policy>;
  using Base::Base;
  using typename Base::StripeEntry;
  using typename Base::Words;

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool load(const T* address, T& value) {
    const std::uintptr_t stripe = stripe_of(address);
    if (stripe != this->current_stripe_) {
      if (this->has_failed() || this->was_killed()) return false;
      StripeEntry* head = nullptr;
      if (!this->read(this->domain_.lock_of(stripe), address, value, head)) return false;
      if (head == nullptr) return true;
      this->resume(*head, stripe);
    }
    value = Words::load_owned(address);
    return true;
  }

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool store(T* address, T value) {
    if (!this->hold(stripe_of(address))) return false;
    this->current_->keep(address, 1);
    Words::store_release(address, value);
    return true;
  }

  // Loads `count` words of one stripe and stores each as f(its number, its value), with one check of the lock
  // for all, and no entry in the read set, because the stripe is locked before it is read.
  template <Word T, class F>
  [[nodiscard]] TMFLOW_STM_INLINE bool modify(T* address, std::size_t count, const F& f) {
    if (!this->hold(stripe_of(address))) return false;
    this->current_->keep(address, count);
    for (std::size_t i = 0; i < count; ++i)
      Words::store_release(address + i, f(i, Words::load_owned(address + i)));
    return true;
  }

  bool commit() noexcept {
    if (this->has_failed()) return false;
    if (this->self_.writes.empty()) {
      this->deactivate();
      return true;
    }
    const std::uint64_t time = this->commit_time();
    if (time == 0) return false;
    this->release([=](LockWord) { return free_at(time); });
    return true;
  }

  // A reader may have loaded the lock before this transaction acquired it, and then a word that was undone:
  // it must find the lock changed, although the version is the old one. If all incarnations are used up, the
  // clock provides a new version.
  void roll_back() noexcept {
    this->store_all_words();
    this->release([&](LockWord before) {
      if (!Policy::kNewIncarnation) return before;
      if (!is_last_incarnation(before)) return next_incarnation(before);
      return free_at(this->domain_.clock.fetch_add(1, std::memory_order_acq_rel) + 1);
    });
    this->deactivate();
  }
};

}  // namespace tmflow::stm
