// Transactions that only read, and lock what they read.
#pragma once

#include <cstddef>

#include "tmflow/stm/encounter.hpp"

namespace tmflow::stm {

// For readers that fail as ReadOnly. To other transactions it looks like one that updates what it reads, so
// it excludes them exactly as they exclude it. It locks each stripe before it reads it and releases all locks
// after the last read, so at that moment everything was as it was read. It has written nothing, so the locks
// get back the same words as before, and other readers of these stripes are not disturbed afterwards.
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

  // A kill now comes too late: everything was read under locks that are still held.
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
