// What a transaction has read: locks, and the versions that they had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "tmflow/stm/lock_word.hpp"

namespace tmflow::stm {

template <class Lock>
struct Read {
  const Lock* lock;
  LockWord seen;
};

// Belongs to one thread. It grows and never shrinks.
template <template <class> class Atom>
class BasicReadSet {
 public:
  using Lock = BasicLock<Atom>;
  using Read = stm::Read<Lock>;

  TMFLOW_STM_INLINE void clear() noexcept {
    size_ = 0;
    for (const Lock*& lock : recent_.locks) lock = nullptr;
  }

  // A loop over elements returns to the same few locks: a recently added one is not added again. It needs no
  // second check, because the transaction has verified that its version is still within the snapshot.
  TMFLOW_STM_INLINE void add(const Lock& lock, LockWord seen) {
    const Lock*& recent = recent_.locks[(reinterpret_cast<std::uintptr_t>(&lock) / sizeof(Lock)) % kRecent];
    if (recent == &lock) return;
    if (size_ == capacity_) grow();
    reads_[size_++] = {&lock, seen};
    recent = &lock;
  }

  TMFLOW_STM_INLINE const Read* begin() const noexcept { return reads_; }
  TMFLOW_STM_INLINE const Read* end() const noexcept { return reads_ + size_; }

 private:
  static constexpr std::size_t kRecent = 8;
  struct Recent {
    const Lock* locks[kRecent] = {};
  };

  void grow();

  Read* reads_ = nullptr;
  std::size_t size_ = 0, capacity_ = 0;
  Recent recent_;
  std::unique_ptr<Read[]> memory_;
};

}  // namespace tmflow::stm
