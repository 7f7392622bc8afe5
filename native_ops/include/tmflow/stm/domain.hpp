// The shared state of transactions: the clock and the locks.
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
// table, so distant stripes may share one: this costs conflicts, never correctness.
//
// Memory ordering: a writing transaction acquires its locks first and then advances the clock (acquire and
// release). So a thread that reads from the clock (acquire) that a transaction has committed finds each of
// its locks owned or released with the new version, never in its earlier state.
template <template <class> class Atom = std::atomic>
class BasicDomain {
 public:
  using Lock = BasicLock<Atom>;
  using StripeEntry = BasicStripeEntry<Atom>;
  using Descriptor = BasicDescriptor<Atom>;
  using Claim = BasicClaim<Atom>;
  using Words = stm::Words<Atom>;

  static constexpr std::size_t kLocks = std::size_t{1} << 20;

  // `locks`: a power of two. Throws std::invalid_argument otherwise.
  explicit BasicDomain(std::size_t locks = kLocks);

  // The default domain of this process. It lives until the process ends.
  static BasicDomain& shared();

  TMFLOW_STM_INLINE static StripeEntry* owner_of(LockWord owned) noexcept {
    return stm::owner_of<Atom>(owned);
  }

  TMFLOW_STM_INLINE Lock& lock_of(std::uintptr_t stripe) noexcept {
    return locks_[(stripe / kStripeBytes) & mask_];
  }

  alignas(kCacheLine) Atom<std::uint64_t> clock{0};  // of commits that wrote
  alignas(kCacheLine) Atom<std::uint64_t> order{0};  // of transactions that compare their age

 private:
  alignas(kCacheLine) const std::size_t mask_;
  const std::unique_ptr<Lock[]> memory_;
  Lock* const locks_;
};

using Domain = BasicDomain<>;

}  // namespace tmflow::stm
