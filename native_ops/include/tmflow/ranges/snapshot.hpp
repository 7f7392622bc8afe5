// A consistent copy of ranges without locks.
#pragma once

#include <cstddef>
#include <optional>

#include "tmflow/ranges/lock_table.hpp"
#include "tmflow/ranges/policy.hpp"
#include "tmflow/sync/fence.hpp"

namespace tmflow::ranges {

// How often a reader's copy may fail, and how often it may find a lock owned, before it acquires the locks
// itself.
inline constexpr int kCopies = 8, kLooks = 4096;

// The sum of the versions of the locks of `count` elements from the first; nullopt if one is owned.
//
// Versions only grow. So if two sums are equal, every version is equal: everything that the locks cover was
// unchanged from the end of the first sum to the beginning of the second. Memory ordering: acquires what the
// last owner of each lock released.
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

// Runs `copy`, a void() that reads only the first `count` elements, until no thread has written any of them
// during the copy. Writes no shared memory, so it may never succeed while others write: returns false after
// too many attempts, and the copy is then meaningless.
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
