// Finds the entry of a stripe if no lock leads to it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tmflow/stm/word.hpp"

namespace tmflow::stm {

// A hash table with open addressing that belongs to one thread. A new epoch empties it in one step. When the
// epochs are exhausted, the slots are emptied one by one. `Epoch` is a parameter so that a test can check
// that.
template <std::unsigned_integral Epoch = std::uint32_t>
class BasicStripeIndex {
 public:
  static constexpr std::uint32_t kAbsent = ~std::uint32_t{0};

  BasicStripeIndex() { resize(10); }

  TMFLOW_STM_INLINE void clear() noexcept {
    size_ = 0;
    if (++epoch_ == 0) forget();
  }

  TMFLOW_STM_INLINE std::uint32_t find(std::uintptr_t stripe) const noexcept {
    for (std::size_t at = home_of(stripe);; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.epoch != epoch_) return kAbsent;
      if (slot.stripe == stripe) return slot.index;
    }
  }

  // `stripe` must not be there yet.
  TMFLOW_STM_INLINE void insert(std::uintptr_t stripe, std::uint32_t index) {
    if (2 * ++size_ > mask_) grow();
    std::size_t at = home_of(stripe);
    while (slots_[at].epoch == epoch_) at = (at + 1) & mask_;
    slots_[at] = {stripe, index, epoch_};
  }

 private:
  struct Slot {
    std::uintptr_t stripe;
    std::uint32_t index;
    Epoch epoch;  // if not the table's: the slot is free
  };

  // Fibonacci hashing: neighbours get distant slots, so runs of stripes do not cluster.
  TMFLOW_STM_INLINE std::size_t home_of(std::uintptr_t stripe) const noexcept {
    return static_cast<std::size_t>((stripe / kStripeBytes) * std::uint64_t{0x9E3779B97F4A7C15} >> shift_);
  }

  void resize(int bits);
  void grow();
  void forget() noexcept;

  Slot* slots_ = nullptr;
  std::size_t mask_ = 0, size_ = 0;
  int shift_ = 0;
  Epoch epoch_ = 1;
  std::unique_ptr<Slot[]> memory_;
};

using StripeIndex = BasicStripeIndex<>;

}  // namespace tmflow::stm
