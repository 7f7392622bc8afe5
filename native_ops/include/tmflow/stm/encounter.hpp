// Encounter-time locking: a stripe is locked when it is first written.
#pragma once

#include "tmflow/stm/attempt.hpp"

namespace tmflow::stm {

// The common part of the two designs that lock at the first write. `current_` is the entry of the stripe that
// was touched last: the next element is nearly always in it, and neither its lock nor its version need to be
// checked again.
template <class Manager, class Policy>
class Encounter : public Attempt<Manager, Policy> {
 public:
  using Base = Attempt<Manager, Policy>;
  using Base::Base;
  using typename Base::Lock;
  using typename Base::StripeEntry;

 protected:
  // Makes the entry of a stripe under a lock of this transaction the current one; nullptr if the transaction
  // has not written the stripe.
  StripeEntry* resume(StripeEntry& head, std::uintptr_t stripe) noexcept {
    StripeEntry* const entry = this->self_.writes.find(head, stripe);
    if (entry != nullptr) make_current(*entry);
    return entry;
  }

  void make_current(StripeEntry& entry) noexcept {
    current_ = &entry;
    current_stripe_ = entry.stripe;
  }

  // Makes the entry of `stripe`, which is locked, the current one. False: the attempt has failed.
  TMFLOW_STM_INLINE bool hold(std::uintptr_t stripe) {
    return stripe == current_stripe_ || (!this->has_failed() && take(stripe));
  }

  // Makes the entry of `stripe` the current one, and locks it unless it is locked. False: the attempt has
  // failed.
  //
  // Memory ordering: acquiring the lock acquires what its last owner released, and releases the entry to
  // competitors. If the stripe is newer than the snapshot, the snapshot is extended first, so that the words
  // that the entry covers and that are only read are within it.
  bool take(std::uintptr_t stripe) {
    if (this->was_killed()) return false;
    auto& writes = this->self_.writes;
    Lock& lock = this->domain_.lock_of(stripe);
    for (;;) {
      LockWord word = lock.load(std::memory_order_acquire);
      if (is_owned(word)) {
        if (!this->is_mine(word)) {
          if (!this->outlasts(lock, word, Cause::write_locked)) return false;
          continue;
        }
        StripeEntry& head = *this->entry_of(word);
        if (resume(head, stripe) == nullptr) {
          make_current(writes.add(stripe, StripeEntry::kChained));
          writes.chain_last(head);
        }
        return true;
      }
      if (!this->is_recent_enough(word, Cause::write_invalid)) return false;
      StripeEntry& entry = writes.add(stripe, word);
      if (!Policy::kLocksWrites ||
          lock.compare_exchange_strong(word, owned_by(entry), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        make_current(entry);
        return true;
      }
      writes.drop_last();
    }
  }

  StripeEntry* current_ = &this->self_.writes[0];
  std::uintptr_t current_stripe_ = 0;  // no stripe: address 0 is never used
};

}  // namespace tmflow::stm
