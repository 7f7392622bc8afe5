// Transactions that only read, and lock what they read.
#pragma once

#include <cstddef>

#include "tmflow/stm/encounter.hpp"

namespace tmflow::stm {

// For who cannot get through as a ReadOnly: to everybody else it is a transaction that updates what it reads,
// and so keeps others out as long as they keep it out. Locks each stripe before it reads it and gives all
// locks back when it has read the last, so at that moment everything was as it was read. It has written
// nothing, so the locks get back the very words that they had, and nobody who reads what it has read is
// disturbed afterwards.
template <class Manager, class Policy>
class ReadLocked : public Encounter<Manager, Policy> {
 public:
  using Base = Encounter<Manager, Policy>;
  using Base::Base;
  using typename Base::Words;

  // `count` words of one stripe.
  template <Word T>
  [[nodiscard]] TMFLOW_STM_INLINE bool load(const T* address, std::size_t count, T* values) {
    if (!this->hold(stripe_of(address))) return false;
    for (std::size_t i = 0; i < count; ++i) values[i] = Words::load_owned(address + i);
    return true;
  }

  // A kill that comes now comes too late: all was read under locks that are still held.
  bool commit() noexcept {
    if (this->has_failed()) return false;
    roll_back();
    return true;
  }

  void roll_back() noexcept {
    this->release([](LockWord before) { return before; });
    this->deactivate();
  }
};

}  // namespace tmflow::stm
