// A consistent copy of ranges that nobody locks.
#pragma once

#include <cstddef>
#include <optional>

#include "tmflow/ranges/lock_table.hpp"
#include "tmflow/ranges/policy.hpp"
#include "tmflow/sync/fence.hpp"

namespace tmflow::ranges {

// How often a reader copies in vain, and how often it finds a lock taken, before it takes the locks itself.
inline constexpr int kCopies = 8, kLooks = 4096;

// The sum of the versions of the locks of `count` elements from the first; nothing while one is owned.
//
// Versions only grow. So if two sums are equal, every version is: whatever the locks cover was the same at
// every moment between the end of the first sum and the beginning of the second. Memory ordering: acquires
// what the last owner of each released.
template <template <class> class Atom>
std::optional<LockWord> version_of(LockTable<Atom>& locks, std::size_t count) noexcept {
  LockWord sum = 0;
  const bool all_free = locks.all_of(0, count, [&](Atom<LockWord>& lock) {
    const LockWord word = lock.load(std::memory_order_acquire);
    sum += word;
    return !is_owned(word);
  });
  return all_free ? std::optional(sum) : std::nullopt;
}

// Runs `copy`, a void() that reads only the first `count` elements, until nobody has written any of them
// meanwhile. Writes no shared memory, and so may never come to an end among writers: false if it has lost its
// patience, and nothing that `copy` has left is worth anything then.
template <class Policy = Sound, template <class> class Atom, class Copy>
bool copy_unlocked(LockTable<Atom>& locks, std::size_t count, const Copy& copy) {
  int looks = 0;
  for (int copies = 0; copies < kCopies; ++copies) {
    std::optional<LockWord> before = version_of(locks, count);
    while (!before) {
      if (++looks == kLooks) return false;
      Waiting<Atom>::once(Turn(static_cast<std::uint32_t>(looks)));
      before = version_of(locks, count);
    }
    copy();
    if constexpr (!Policy::kLooksAgain) return true;
    Fence<Atom>::issue(std::memory_order_acquire);
    const std::optional<LockWord> after = version_of(locks, count);
    if (after && (after == before || !Policy::kComparesVersions)) return true;
  }
  return false;
}

}  // namespace tmflow::ranges
