// The versioned locks of a variable's blocks.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tmflow/ranges/transactor.hpp"

namespace tmflow::ranges {

// A table of locks for the blocks of `block` elements. A lock covers every block whose number is its own
// modulo the size of the table: this costs conflicts, never correctness, and allows a variable of any size.
//
// Memory ordering: a thread that acquires a lock acquires what its last owner released.
template <template <class> class Atom>
class LockTable {
 public:
  static constexpr std::size_t kLocks = 1024;

  // `locks` is rounded up to a power of two.
  explicit LockTable(std::size_t block, std::size_t locks = kLocks)
      : block_(block), mask_(std::bit_ceil(locks) - 1), locks_(new Atom<LockWord>[mask_ + 1]()) {}

  // Calls f(lock) for each lock of the elements [first, first + count), once, in the order of the blocks, as
  // long as it returns true; returns whether it always did.
  template <class F>
  bool all_of(std::size_t first, std::size_t count, const F& f) {
    if (count == 0) return true;
    const std::size_t begin = first / block_, blocks = (first + count - 1) / block_ - begin + 1;
    const std::size_t distinct = std::min(blocks, mask_ + 1);
    for (std::size_t i = 0; i < distinct; ++i) {
      if (!f(locks_[(begin + i) & mask_])) return false;
    }
    return true;
  }

  TransactorPool<Atom> transactors;
  alignas(kCacheLine) Atom<std::uint64_t> order{0};  // of transactions that compare their age

 private:
  alignas(kCacheLine) const std::size_t block_;
  const std::size_t mask_;
  const std::unique_ptr<Atom<LockWord>[]> locks_;
};

}  // namespace tmflow::ranges
