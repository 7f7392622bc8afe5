// What transactions share: the clock and the locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/descriptor.hpp"
#include "tmflow/stm/lock_word.hpp"

namespace tmflow::stm {

// A global version clock and a table of versioned locks. Transactions of one domain are isolated from each
// other, and from nothing else. A lock covers every stripe whose number is its own modulo the size of the
// table, so stripes far apart may share one: that costs conflicts, never correctness.
//
// Memory ordering: a transaction that writes takes its locks first and moves the clock on after (acquire and
// release). So whoever reads from the clock (acquire) that a transaction has committed finds each of its
// locks taken or released with the new version, never as it was before.
template <template <class> class Atom = std::atomic>
class BasicDomain {
 public:
  using Lock = BasicLock<Atom>;
  using StripeEntry = BasicStripeEntry<Atom>;
  using Descriptor = BasicDescriptor<Atom>;
  using Claim = BasicClaim<Atom>;
  using Words = stm::Words<Atom>;

  static constexpr std::size_t kLocks = std::size_t{1} << 20;

  // `locks`: a power of two. Throws std::invalid_argument if it is none.
  explicit BasicDomain(std::size_t locks = kLocks);

  // The one of this process, for whoever needs no other. It lives until the process ends.
  static BasicDomain& shared();

  TMFLOW_STM_INLINE static StripeEntry* owner_of(LockWord owned) noexcept {
    return stm::owner_of<Atom>(owned);
  }

  TMFLOW_STM_INLINE Lock& lock_of(std::uintptr_t stripe) noexcept {
    return locks_[(stripe / kStripeBytes) & mask_];
  }

  alignas(kCacheLine) Atom<std::uint64_t> clock{0};  // of commits that wrote
  alignas(kCacheLine) Atom<std::uint64_t> order{0};  // of transactions that ask who is older

 private:
  alignas(kCacheLine) const std::size_t mask_;
  const std::unique_ptr<Lock[]> memory_;
  Lock* const locks_;
};

using Domain = BasicDomain<>;

}  // namespace tmflow::stm
