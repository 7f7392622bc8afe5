// wb_ctl: write-back, commit-time locking.
#pragma once

#include "tmflow/stm/attempt.hpp"

namespace tmflow::stm {

// Buffers the new words and locks at the commit. Holds locks for the shortest time. Two conflicting
// transactions detect the conflict last, when one of them has done all its work in vain.
template <class Manager, class Policy>
class WbCtl : public Attempt<Manager, Policy> {
 public:
  using Base = Attempt<Manager, Policy>;
  using typename Base::Descriptor;
  using typename Base::Domain;
  using typename Base::Lock;
  using typename Base::StripeEntry;

  WbCtl(Domain& domain, Descriptor& self) noexcept : Base(domain, self) { self.index.clear(); }

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool load(const T* address, T& value) {
    if (this->has_failed() || this->was_killed()) return false;
    const std::uintptr_t stripe = stripe_of(address);
    if (const StripeEntry* entry = find(stripe); entry != nullptr && entry->has(address)) {
      value = entry->get(address);
      return true;
    }
    StripeEntry* mine = nullptr;  // no lock is ours before the commit
    return this->read(this->domain_.lock_of(stripe), address, value, mine);
  }

  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool store(T* address, T value) {
    const std::uintptr_t stripe = stripe_of(address);
    StripeEntry* entry = find(stripe);
    if (entry == nullptr) {
      if (this->has_failed() || this->was_killed()) return false;
      auto& writes = this->self_.writes;
      this->self_.index.insert(stripe, static_cast<std::uint32_t>(writes.size()));
      entry = &writes.add(stripe, StripeEntry::kChained);
      make_current(*entry);
    }
    entry->put(address, value);
    return true;
  }

  // As in wt, but nothing is locked yet, so each word is read like any other.
  template <Word T, class F>
  [[nodiscard]] TMFLOW_STM_INLINE bool modify(T* address, std::size_t count, const F& f) {
    for (std::size_t i = 0; i < count; ++i) {
      T value{};
      if (!load(address + i, value) || !store(address + i, f(i, value))) return false;
    }
    return true;
  }

  bool commit() noexcept {
    if (this->has_failed()) return false;
    if (this->self_.writes.empty()) {
      this->deactivate();
      return true;
    }
    if (Policy::kLocksWrites && !take_all()) return false;
    const std::uint64_t time = this->commit_time();
    if (time == 0) return false;
    this->write_back(time);
    return true;
  }

  void roll_back() noexcept {
    this->release([](LockWord before) { return before; });
    this->deactivate();
  }

 private:
  StripeEntry* find(std::uintptr_t stripe) noexcept {
    if (stripe == current_stripe_) return current_;
    const std::uint32_t index = this->self_.index.find(stripe);
    if (index == StripeIndex::kAbsent) return nullptr;
    make_current(this->self_.writes[index]);
    return current_;
  }

  void make_current(StripeEntry& entry) noexcept {
    current_ = &entry;
    current_stripe_ = entry.stripe;
  }

  // Entries whose lock another entry has acquired, or that are not locked yet, contain kChained. If one
  // cannot be locked, the attempt ends; roll_back releases the acquired locks.
  bool take_all() noexcept {
    auto& writes = this->self_.writes;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      if (!take(writes[i])) return false;
    }
    return true;
  }

  // The validation finds a stripe that was read and is newer than the snapshot; one that was only written may
  // be arbitrarily new.
  bool take(StripeEntry& entry) noexcept {
    if (this->was_killed()) return false;
    Lock& lock = this->domain_.lock_of(entry.stripe);
    for (;;) {
      LockWord word = lock.load(std::memory_order_acquire);
      if (is_owned(word)) {
        if (this->is_mine(word)) return true;
        if (!this->outlasts(lock, word, Cause::commit_locked)) return false;
        continue;
      }
      entry.before = word;
      if (lock.compare_exchange_strong(word, owned_by(entry), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        return true;
      }
      entry.before = StripeEntry::kChained;
    }
  }

  StripeEntry* current_ = &this->self_.writes[0];
  std::uintptr_t current_stripe_ = 0;
};

}  // namespace tmflow::stm
