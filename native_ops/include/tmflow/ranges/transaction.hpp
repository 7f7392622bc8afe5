// Transactions over ranges of a variable.
#pragma once

#include <cstdint>
#include <span>

#include "tmflow/measure/counters.hpp"
#include "tmflow/ranges/lock_table.hpp"
#include "tmflow/ranges/policy.hpp"
#include "tmflow/stm/cause.hpp"
#include "tmflow/stm/managers.hpp"
#include "tmflow/sync/fence.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow::ranges {

// One attempt to run a transaction. It locks the blocks of a range when it first accesses them and releases
// them at its end (two-phase locking). So no other thread accesses what it reads and writes in the meantime.
//
// Contract for the program: `hold` and `modify` return false when the attempt has failed; the body must then
// return false immediately, and is run again. Modified memory must outlive the attempt, which may have to
// restore it.
//
// Memory ordering against readers without a lock (snapshot.hpp): a release fence stands between acquiring a
// lock and writing what it covers, and an acquire fence between a reader's copy and its second check of the
// locks. So a reader that has seen any of the writes sees that the lock was owned.
template <template <class> class Atom, class Manager, class Policy>
class Transaction {
 public:
  Transaction(LockTable<Atom>& locks, Transactor<Atom>& self) noexcept : locks_(locks), self_(self) {
    if constexpr (Manager::kKills) self_.activate();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Locks the elements [first, first + count), whether or not they will be written.
  [[nodiscard]] bool hold(std::size_t first, std::size_t count) {
    if (has_failed() || was_killed()) return false;
    return !Policy::kLocks || locks_.all_of(first, count, [&](Atom<LockWord>& lock) { return take(lock); });
  }

  // Locks the elements [first, first + count) of `variable`, and runs f on them, a void(std::span<T>) that
  // touches no others. An abort restores their current values.
  template <class T, class F>
  [[nodiscard]] bool modify(std::span<T> variable, std::size_t first, std::size_t count, const F& f) {
    if (!hold(first, count)) return false;
    const std::span<T> range = variable.subspan(first, count);
    self_.log.keep(range);
    Fence<Atom>::issue(std::memory_order_release);
    f(range);
    return true;
  }

  // Aborts: the transaction has no effect and is not run again. For `return transaction.abort();`.
  bool abort() noexcept { return fail(stm::Cause::requested); }

  // Seals the transaction: from here on no thread can make it abort. False: it was aborted before.
  bool seal() noexcept {
    if (has_failed()) return false;
    if constexpr (Manager::kKills) {
      if (!self_.deactivate()) return fail(stm::Cause::killed);
    }
    return true;
  }

  // Releases every lock, with a new version.
  //
  // Memory ordering: releases all writes to the next owner and to readers.
  void release() noexcept {
    for (const auto& [lock, before] : self_.taken) {
      lock->store(next_version(before), std::memory_order_release);
    }
    self_.taken.clear();
    self_.log.clear();
  }

  // The lock gets a new version here too: a reader may have seen, between its two checks, writes that are now
  // undone.
  void roll_back() noexcept {
    if constexpr (Policy::kRestores) self_.log.restore_all();
    if constexpr (!Policy::kNewVersions) {
      for (auto& taken : self_.taken) taken.before -= 2;
    }
    release();
    if constexpr (Manager::kKills) self_.deactivate();
  }

  stm::Cause cause() const noexcept { return cause_; }
  const Atom<LockWord>* contended() const noexcept { return contended_; }

 private:
  bool fail(stm::Cause cause) noexcept {
    if (cause_ == stm::Cause::none) cause_ = cause;
    return false;
  }
  bool has_failed() const noexcept { return cause_ != stm::Cause::none; }

  bool was_killed() noexcept {
    if constexpr (Manager::kKills) {
      if (self_.is_killed()) return !fail(stm::Cause::killed);
    }
    return false;
  }

  // Memory ordering: acquires what the last owner released, and releases this transactor to competitors.
  bool take(Atom<LockWord>& lock) {
    for (Turn turn;; ++turn) {
      LockWord word = lock.load(std::memory_order_acquire);
      if (word == self_.as_owner()) return true;
      if (is_owned(word)) {
        if (!outlasts(lock, word, turn)) return false;
        continue;
      }
      self_.taken.push_back({&lock, word});  // first, because it may throw
      if (lock.compare_exchange_strong(word, self_.as_owner(), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
        return true;
      }
      self_.taken.pop_back();
    }
  }

  // Another transaction owns `lock`. True: check again; false: this attempt has failed.
  bool outlasts(const Atom<LockWord>& lock, LockWord owned, Turn turn) noexcept {
    if constexpr (Manager::kKills) {
      if (was_killed()) return false;
      Transactor<Atom>& owner = *owner_of<Atom>(owned);
      if (Manager::insists(self_, owner)) {
        owner.kill();
        self_.await(turn);
        return true;
      }
    }
    contended_ = &lock;
    return fail(stm::Cause::write_locked);
  }

  LockTable<Atom>& locks_;
  Transactor<Atom>& self_;
  stm::Cause cause_ = stm::Cause::none;
  const Atom<LockWord>* contended_ = nullptr;
};

// A transactor for one transaction.
template <template <class> class Atom>
class Claim {
 public:
  explicit Claim(LockTable<Atom>& locks) : transactor(locks.transactors.claim()) {}
  ~Claim() { TransactorPool<Atom>::give_back(transactor); }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  Transactor<Atom>& transactor;
};

// An attempt, which ends if an exception leaves it.
template <class Transaction, class Policy>
class Attempt {
 public:
  Attempt(Transaction& transaction, ThreadStats& stats) noexcept : transaction_(transaction), stats_(stats) {}
  ~Attempt() {
    if (ended) return;
    transaction_.roll_back();
    if constexpr (Policy::kCounts) stats_.count_abort(static_cast<std::uint64_t>(stm::Cause::exception));
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  bool ended = false;

 private:
  Transaction& transaction_;
  ThreadStats& stats_;
};

// After this many consecutive aborts a transaction yields before each attempt, whatever its manager: with
// more threads than cores, the thread that it waits for may need its core.
inline constexpr std::uint64_t kPatience = 8;

// Runs `body`, a bool(Transaction&), as one transaction, repeatedly until it commits, and then `last`, a
// void() that does not throw, before any lock is released; returns true then. All transactions and snapshots
// see the writes of body and last atomically. The writes of last need no undo log, because no other
// transaction and no body can abort any more; they must be covered by the locks of body. If the body requests
// an abort, or returns false although the attempt did not fail, there is no effect and the result is false.
// An exception of the body propagates, also without effect. A body runs no other transaction with the same
// locks.
//
// Counts one commit and its retries, and each abort by its cause.
template <class Manager, class Policy = Sound, template <class> class Atom, class Body, class Last>
bool atomically(LockTable<Atom>& locks, ThreadStats& stats, const Body& body, const Last& last) {
  using Own = Transaction<Atom, Manager, Policy>;
  const Claim<Atom> claim(locks);
  LockTimer times(stats);
  Manager::enter(claim.transactor, locks);
  for (std::uint64_t restarts = 1;; ++restarts) {
    Own transaction(locks, claim.transactor);
    Attempt<Own, Policy> attempt(transaction, stats);
    const bool done = body(transaction);
    attempt.ended = true;
    if (done && transaction.seal()) {
      times.taken();
      if constexpr (!Policy::kReleasesLast) transaction.release();
      Fence<Atom>::issue(std::memory_order_release);
      last();
      transaction.release();
      times.given_back();
      if constexpr (Policy::kCounts) stats.count_commit();
      stats.count(Contention::retries, static_cast<std::int64_t>(restarts - 1));
      return true;
    }
    transaction.roll_back();
    const stm::Cause cause =
        transaction.cause() == stm::Cause::none ? stm::Cause::requested : transaction.cause();
    if constexpr (Policy::kCounts) stats.count_abort(static_cast<std::uint64_t>(cause));
    if (cause == stm::Cause::requested) return false;
    Manager::before_retry(claim.transactor, restarts, transaction.contended());
    if (restarts >= kPatience) stm::give_way();
  }
}

}  // namespace tmflow::ranges
