// The word of a lock: the owner of the stripes that it covers, or their version.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/stm/word.hpp"

namespace tmflow::stm {

template <template <class> class Atom>
struct BasicStripeEntry;

// Lowest bit 1: owned, and the rest is the address of the owner's entry. Lowest bit 0: free, above it the
// incarnation, and above that the version, the clock's value at the last commit that wrote.
//
// The incarnation counts the aborts that wrote into the stripes and restored them (write-through): the
// version is the old one again, but a reader that saw the undone writes must find the lock changed. The
// version has 55 bits and does not wrap: at a commit every nanosecond it lasts a year.
using LockWord = std::uint64_t;
template <template <class> class Atom = std::atomic>
using BasicLock = Atom<LockWord>;

inline constexpr int kIncarnationBits = 8;
inline constexpr LockWord kIncarnations = LockWord{1} << kIncarnationBits;

TMFLOW_STM_INLINE bool is_owned(LockWord word) noexcept { return (word & 1) != 0; }

template <template <class> class Atom = std::atomic>
TMFLOW_STM_INLINE BasicStripeEntry<Atom>* owner_of(LockWord word) noexcept {
  return reinterpret_cast<BasicStripeEntry<Atom>*>(static_cast<std::uintptr_t>(word - 1));
}

template <template <class> class Atom>
TMFLOW_STM_INLINE LockWord owned_by(const BasicStripeEntry<Atom>& entry) noexcept {
  return static_cast<LockWord>(reinterpret_cast<std::uintptr_t>(&entry)) | 1;
}

TMFLOW_STM_INLINE std::uint64_t version_of(LockWord word) noexcept { return word >> (kIncarnationBits + 1); }

TMFLOW_STM_INLINE LockWord free_at(std::uint64_t version) noexcept {
  return version << (kIncarnationBits + 1);
}

TMFLOW_STM_INLINE bool is_last_incarnation(LockWord word) noexcept {
  return (word >> 1) % kIncarnations == kIncarnations - 1;
}

TMFLOW_STM_INLINE LockWord next_incarnation(LockWord word) noexcept { return word + 2; }

}  // namespace tmflow::stm
