// What a transaction has written: the redo log of the designs that write back, the undo log of write-through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tmflow/stm/lock_word.hpp"

namespace tmflow::stm {

class Descriptor;

// One stripe that a transaction writes, in one cache line: new words (write-back) or old ones
// (write-through).
//
// Other threads reach an entry through a lock that it owns, at any time, also when it no longer does: they
// read `owner` and nothing else, which never changes, in memory that is never freed.
struct alignas(64) StripeEntry {
  static constexpr LockWord kChained = ~LockWord{0};  // another entry of the transaction owns the lock

  Descriptor* owner = nullptr;
  LockWord before = 0;        // of the lock, when this entry took it; or kChained
  std::uintptr_t stripe = 0;  // its address
  std::uint32_t next = 0;     // the next entry under the same lock: its index + 1; 0: there is none
  std::uint32_t words = 0;    // which of its 4-byte words are here: bit i for word i
  unsigned char bytes[kStripeBytes];

  template <Word T>
  TMFLOW_STM_INLINE bool has(const T* address) const noexcept {
    return (words & bits_of(address)) != 0;
  }

  template <Word T>
  TMFLOW_STM_INLINE T get(const T* address) const noexcept {
    T value;
    __builtin_memcpy(&value, bytes + offset_of(address), sizeof(T));
    return value;
  }

  template <Word T>
  TMFLOW_STM_INLINE void put(const T* address, T value) noexcept {
    __builtin_memcpy(bytes + offset_of(address), &value, sizeof(T));
    words |= bits_of(address);
  }

  // Store the words that are here to memory, each as a whole: two neighbours, which may be one double, at
  // once.
  TMFLOW_STM_INLINE void store_words() const noexcept {
    for (std::size_t pair = 0; pair < kStripeBytes / 8; ++pair) {
      const unsigned here = (words >> (2 * pair)) & 3;
      if (here == 3) {
        store_part<std::uint64_t>(8 * pair);
      } else if (here != 0) {
        store_part<std::uint32_t>(8 * pair + (here == 2 ? 4 : 0));
      }
    }
  }

 private:
  TMFLOW_STM_INLINE static std::size_t offset_of(const void* address) noexcept {
    return reinterpret_cast<std::uintptr_t>(address) % kStripeBytes;
  }

  template <Word T>
  TMFLOW_STM_INLINE static std::uint32_t bits_of(const T* address) noexcept {
    return ((1u << (sizeof(T) / 4)) - 1) << (offset_of(address) / 4);
  }

  template <class Bits>
  TMFLOW_STM_INLINE void store_part(std::size_t offset) const noexcept {
    using AnyWord [[gnu::may_alias]] = Bits;  // whatever type the program has there
    AnyWord part;
    __builtin_memcpy(&part, bytes + offset, sizeof part);
    __atomic_store_n(reinterpret_cast<AnyWord*>(stripe + offset), part, __ATOMIC_RELEASE);
  }
};
static_assert(sizeof(StripeEntry) == 64);

// The entries of one thread's transaction, in the order in which they were added. They never move, since
// locks point at them. Grows and never shrinks.
class WriteSet {
 public:
  explicit WriteSet(Descriptor& owner) : owner_(owner) { grow(), clear(); }

  TMFLOW_STM_INLINE void clear() noexcept {
    size_ = 0;
    free_ = blocks_[0];
    end_ = free_ + kBlock;
  }
  TMFLOW_STM_INLINE bool empty() const noexcept { return size_ == 0; }
  TMFLOW_STM_INLINE std::size_t size() const noexcept { return size_; }

  TMFLOW_STM_INLINE StripeEntry& operator[](std::size_t index) noexcept {
    return blocks_[index / kBlock][index % kBlock];
  }

  TMFLOW_STM_INLINE StripeEntry& add(std::uintptr_t stripe, LockWord before) {
    if (free_ == end_) next_block();
    StripeEntry& entry = *free_++;
    ++size_;
    entry.before = before;
    entry.stripe = stripe;
    entry.next = 0;
    entry.words = 0;
    return entry;
  }

  TMFLOW_STM_INLINE void drop_last() noexcept {
    --free_;
    --size_;
  }

  // Put the last entry under the lock that `head` owns.
  TMFLOW_STM_INLINE void chain_last(StripeEntry& head) noexcept {
    (*this)[size_ - 1].next = head.next;
    head.next = static_cast<std::uint32_t>(size_);
  }

  // The entry of that stripe among those under the lock that `head` owns; nullptr if there is none.
  TMFLOW_STM_INLINE StripeEntry* find(StripeEntry& head, std::uintptr_t stripe) noexcept {
    for (StripeEntry* entry = &head; entry != nullptr; entry = after(*entry)) {
      if (entry->stripe == stripe) return entry;
    }
    return nullptr;
  }

  TMFLOW_STM_INLINE StripeEntry* after(const StripeEntry& entry) noexcept {
    return entry.next == 0 ? nullptr : &(*this)[entry.next - 1];
  }

 private:
  static constexpr std::size_t kBlock = 1024;

  void grow();        // by one block
  void next_block();  // after the current one, which is full

  Descriptor& owner_;
  StripeEntry* free_ = nullptr;
  StripeEntry* end_ = nullptr;
  std::size_t size_ = 0;
  StripeEntry** blocks_ = nullptr;
  std::vector<StripeEntry*> block_addresses_;
  std::vector<std::unique_ptr<StripeEntry[]>> memory_;
};

}  // namespace tmflow::stm
