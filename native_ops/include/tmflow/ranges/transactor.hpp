// The thread that runs a transaction over ranges: what its competitors can see of it, and the memory that it
// needs.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/stm/contender.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::ranges {

// The word of a lock. Lowest bit 1: owned, and the rest is the owner's address. Lowest bit 0: free, and the
// rest is the version. It has 63 bits and does not wrap.
using LockWord = std::uint64_t;

inline bool is_owned(LockWord word) noexcept { return (word & 1) != 0; }
inline LockWord next_version(LockWord free) noexcept { return free + 2; }

// The content of ranges before they were written. They are restored in reverse order, so that a range that
// was written twice gets its original content.
class UndoLog {
 public:
  template <class T>
  void keep(std::span<T> range) {
    const std::size_t at = bytes_.size();
    bytes_.resize(at + (range.size_bytes() + kCacheLine - 1) / kCacheLine * kCacheLine);
    find_copy<T>()(range.data(), reinterpret_cast<T*>(bytes_.data() + at), range.size());
    clear_upper_halves();
    kept_.push_back({range.data(), range.size(), at, restore<T>});  // last: the statements before may throw
  }

  void restore_all() noexcept {
    for (; !kept_.empty(); kept_.pop_back()) kept_.back().restore(kept_.back(), bytes_.data());
    clear();
  }

  void clear() noexcept {
    kept_.clear();
    bytes_.clear();
  }

 private:
  struct Kept {
    void* range;
    std::size_t count;
    std::size_t at;  // in bytes_
    void (*restore)(const Kept& kept, const std::byte* bytes) noexcept;
  };

  template <class T>
  static void restore(const Kept& kept, const std::byte* bytes) noexcept {
    find_copy<T>()(reinterpret_cast<const T*>(bytes + kept.at), static_cast<T*>(kept.range), kept.count);
    clear_upper_halves();
  }

  std::vector<Kept> kept_;
  LinesOf<std::byte> bytes_;
};

// One transaction at a time. Competitors read the contender; the rest belongs to the thread that claimed it.
template <template <class> class Atom>
struct Transactor : stm::Contender<Atom> {
  struct Taken {
    Atom<LockWord>* lock;
    LockWord before;
  };

  LockWord as_owner() const noexcept {
    return static_cast<LockWord>(reinterpret_cast<std::uintptr_t>(this)) | 1;
  }

  // Called repeatedly while another transaction owns a lock that this one needs.
  static void await(Turn turn) noexcept { Waiting<Atom>::once(turn); }

  std::vector<Taken> taken;
  UndoLog log;
  Atom<bool> busy{true};
  Transactor* next = nullptr;
};

template <template <class> class Atom>
Transactor<Atom>* owner_of(LockWord owned) noexcept {
  return reinterpret_cast<Transactor<Atom>*>(static_cast<std::uintptr_t>(owned - 1));
}

// As many as there ever were concurrent transactions. None is freed while the pool lives, because a
// competitor may read one long after it met it.
//
// Memory ordering: claiming a transactor acquires what its last user released. The list only grows, at its
// head, by a compare-exchange that releases the new one to threads that traverse the list.
template <template <class> class Atom>
class TransactorPool {
 public:
  TransactorPool() = default;
  TransactorPool(const TransactorPool&) = delete;
  TransactorPool& operator=(const TransactorPool&) = delete;
  ~TransactorPool() {
    for (Transactor<Atom>*next, *each = first_.load(std::memory_order_acquire); each != nullptr;
         each = next) {
      next = each->next;
      delete each;
    }
  }

  Transactor<Atom>& claim() {
    Transactor<Atom>* const first = first_.load(std::memory_order_acquire);
    for (Transactor<Atom>* each = first; each != nullptr; each = each->next) {
      if (!each->busy.load(std::memory_order_relaxed) &&
          !each->busy.exchange(true, std::memory_order_acquire))
        return *each;
    }
    auto* const made = new Transactor<Atom>;
    made->next = first;
    while (!first_.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
    }
    return *made;
  }

  static void give_back(Transactor<Atom>& claimed) noexcept {
    claimed.busy.store(false, std::memory_order_release);
  }

 private:
  alignas(kCacheLine) Atom<Transactor<Atom>*> first_{nullptr};
};

}  // namespace tmflow::ranges
