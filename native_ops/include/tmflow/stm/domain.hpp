// What transactions share: the clock and the locks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tmflow/stats.hpp"
#include "tmflow/stm/lock_word.hpp"

namespace tmflow::stm {

// A global version clock and a table of versioned locks. Transactions of one domain are isolated from each
// other, and from nothing else. A lock covers every stripe whose number is its own modulo the size of the
// table, so stripes far apart may share one: that costs conflicts, never correctness.
//
// Memory ordering: a transaction that writes takes its locks first and moves the clock on after (acquire and
// release). So whoever reads from the clock (acquire) that a transaction has committed finds each of its
// locks taken or released with the new version, never as it was before.
class Domain {
 public:
  static constexpr std::size_t kLocks = std::size_t{1} << 20;

  // `locks`: a power of two. Throws std::invalid_argument if it is none.
  explicit Domain(std::size_t locks = kLocks);

  // The one of this process, for whoever needs no other. It lives until the process ends.
  static Domain& shared();

  TMFLOW_STM_INLINE Lock& lock_of(std::uintptr_t stripe) noexcept {
    return locks_[(stripe / kStripeBytes) & mask_];
  }

  alignas(kCacheLine) std::atomic<std::uint64_t> clock{0};  // of commits that wrote
  alignas(kCacheLine) std::atomic<std::uint64_t> order{0};  // of transactions that ask who is older

 private:
  alignas(kCacheLine) const std::size_t mask_;
  const std::unique_ptr<Lock[]> memory_;
  Lock* const locks_;
};

}  // namespace tmflow::stm
