// wb_etl: write-back, encounter-time locking.
#pragma once

#include "tmflow/stm/encounter.hpp"

namespace tmflow::stm {

// Locks a stripe when it is first written and buffers the new words until the commit. An abort has nothing to
// undo. Two conflicting transactions detect the conflict immediately.
template <class Manager, class Policy>
class WbEtl : public Encounter<Manager, Policy> {
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
      if (this->resume(*head, stripe) == nullptr) {
        value = Words::load_owned(address);
        return true;
      }
    }
    value = this->current_->has(address) ? this->current_->get(address) : Words::load_owned(address);
    return true;
  }

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool store(T* address, T value) {
    if (!this->hold(stripe_of(address))) return false;
    this->current_->put(address, value);
    return true;
  }

  // As in wt.
  template <Word T, class F>
  [[nodiscard]] TMFLOW_STM_INLINE bool modify(T* address, std::size_t count, const F& f) {
    if (!this->hold(stripe_of(address))) return false;
    StripeEntry& entry = *this->current_;
    for (std::size_t i = 0; i < count; ++i) {
      entry.put(address + i,
                f(i, entry.has(address + i) ? entry.get(address + i) : Words::load_owned(address + i)));
    }
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
    this->write_back(time);
    return true;
  }

  // The words were not changed, so the locks get back their earlier values.
  void roll_back() noexcept {
    this->release([](LockWord before) { return before; });
    this->deactivate();
  }
};

}  // namespace tmflow::stm
