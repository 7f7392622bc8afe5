// The common part of the designs: the snapshot, reads, and conflicts.
#pragma once

#include <cstdint>

#include "tmflow/stm/cause.hpp"
#include "tmflow/stm/descriptor.hpp"
#include "tmflow/stm/domain.hpp"
#include "tmflow/stm/policy.hpp"

namespace tmflow::stm {

// One attempt to run a transaction. Everything that it has read was the state of memory at one time of the
// clock, `end_`, which it verifies at each read: no inconsistent value ever reaches the program (opacity).
//
// Contract for the program: `load` and `store` return false when the attempt has failed; the body must then
// return false immediately, and is run again. The compiler sees this control flow, and the hot path has only
// a branch: no longjmp, which would skip destructors, and no exception, which costs microseconds to throw.
// Memory that is stored to must outlive the attempt, which may have to restore it.
template <class Manager, class Policy>
class Attempt {
 public:
  using Domain = typename Policy::Domain;
  using Lock = typename Domain::Lock;
  using StripeEntry = typename Domain::StripeEntry;
  using Descriptor = typename Domain::Descriptor;
  using Words = typename Domain::Words;

  Attempt(Domain& domain, Descriptor& self) noexcept
      : domain_(domain), self_(self), end_(domain.clock.load(std::memory_order_acquire)) {
    self_.reads.clear();
    self_.writes.clear();
    if constexpr (Manager::kKills) self_.activate();
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  // Aborts: the transaction has no effect and is not run again. For `return transaction.abort();`.
  bool abort() noexcept { return fail(Cause::requested); }

  Cause cause() const noexcept { return cause_; }
  const Lock* contended() const noexcept { return contended_; }

 protected:
  bool fail(Cause cause) noexcept {
    if (cause_ == Cause::none) cause_ = cause;
    return false;
  }

  // A failed attempt does not continue, even if the body ignored the failure.
  bool has_failed() const noexcept { return cause_ != Cause::none; }

  // Another transaction owns `lock`. True: check again; false: this attempt has failed.
  [[gnu::noinline]] bool outlasts(const Lock& lock, LockWord owned, Cause cause) noexcept {
    if constexpr (Manager::kKills) {
      Descriptor& owner = *entry_of(owned)->owner;
      if (self_.is_killed()) return fail(Cause::killed);
      if (Manager::insists(self_, owner)) {
        owner.kill();
        wait_turns(1);
        return true;
      }
    }
    contended_ = &lock;
    return fail(cause);
  }

  bool was_killed() noexcept {
    if constexpr (Manager::kKills) {
      if (self_.is_killed()) return !fail(Cause::killed);
    }
    return false;
  }

  static StripeEntry* entry_of(LockWord owned) noexcept { return Domain::owner_of(owned); }
  bool is_mine(LockWord owned) const noexcept { return entry_of(owned)->owner == &self_; }

  // Whether everything that was read still has the same version. This holds for a lock that is free with its
  // old version, and for a lock of this transaction that had the version when it was acquired. An incarnation
  // does not matter: it restored the same words.
  [[gnu::noinline]] bool is_valid() const noexcept {
    for (const auto& read : self_.reads) {
      LockWord now = read.lock->load(std::memory_order_acquire);
      if (is_owned(now)) {
        if (!is_mine(now)) return false;
        now = entry_of(now)->before;
      }
      if (version_of(now) != version_of(read.seen)) return false;
    }
    return true;
  }

  // Moves the snapshot to the current time, if nothing that was read has changed. The clock is read first: a
  // transaction that commits after that has a later version, and one that committed before is found by the
  // validation (see Domain).
  [[gnu::noinline]] bool extend() noexcept {
    const std::uint64_t now = domain_.clock.load(std::memory_order_acquire);
    if (Policy::kValidatesExtension && !is_valid()) return false;
    end_ = now;
    return true;
  }

  bool is_recent_enough(LockWord free, Cause cause) noexcept {
    if (!Policy::kChecksVersion || version_of(free) <= end_) return true;
    return extend() || fail(cause);
  }

  // Reads a word under a lock that is not ours, or finds that the lock is ours: then `mine` is its entry and
  // the word was not read. The version is checked before the word is loaded; if the lock is unchanged
  // afterwards, that was the word's version, within the snapshot.
  template <Word T>
  bool read(const Lock& lock, const T* address, T& value, StripeEntry*& mine) {
    for (;;) {
      const LockWord word = lock.load(std::memory_order_acquire);
      if (is_owned(word)) [[unlikely]] {
        if (is_mine(word)) {
          mine = entry_of(word);
          return true;
        }
        if (!outlasts(lock, word, Cause::read_locked)) return false;
        continue;
      }
      if (!is_recent_enough(word, Cause::read_invalid)) return false;
      Policy::at(Point::lock_seen);
      value = Words::load_acquire(address);
      Policy::at(Point::word_seen);
      if (Policy::kRechecksLock && lock.load(std::memory_order_relaxed) != word) [[unlikely]]
        continue;
      self_.reads.add(lock, word);
      return true;
    }
  }

  // The time of this commit, with all locks held; 0 if something that was read has changed. If no other
  // transaction has committed since the snapshot, nothing can have changed.
  std::uint64_t commit_time() noexcept {
    if constexpr (Manager::kKills) {
      if (!self_.deactivate()) return fail(Cause::killed);
    }
    const std::uint64_t time = domain_.clock.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (time != end_ + 1 && Policy::kValidatesCommit && !is_valid()) return fail(Cause::commit_invalid);
    Policy::at(Point::validated);
    return time;
  }

  // Releases every lock that an entry holds, with the word that `word_of` makes of the one before.
  template <class WordOf>
  void release(const WordOf& word_of) noexcept {
    if (!Policy::kLocksWrites) return;
    auto& writes = self_.writes;
    for (std::size_t i = 0; i < writes.size(); ++i) {
      const StripeEntry& entry = writes[i];
      if (entry.before == StripeEntry::kChained) continue;
      domain_.lock_of(entry.stripe).store(word_of(entry.before), std::memory_order_release);
    }
  }

  void store_all_words() noexcept {
    auto& writes = self_.writes;
    for (std::size_t i = 0; i < writes.size(); ++i) writes[i].store_words();
  }

  // The end of a commit that writes back. Memory ordering: all locks are held from before the commit's time
  // until after the last word is written, so no reader gets one of the words without being able to get them
  // all.
  void write_back(std::uint64_t time) noexcept {
    const auto to_new_version = [=](LockWord) { return free_at(time); };
    if constexpr (Policy::kReleasesLast) {
      store_all_words();
      Policy::at(Point::half_ended);
      release(to_new_version);
    } else {
      release(to_new_version);
      Policy::at(Point::half_ended);
      store_all_words();
    }
  }

  void deactivate() noexcept {
    if constexpr (Manager::kKills) self_.deactivate();
  }

  Domain& domain_;
  Descriptor& self_;
  std::uint64_t end_;
  Cause cause_ = Cause::none;
  const Lock* contended_ = nullptr;
};

}  // namespace tmflow::stm
