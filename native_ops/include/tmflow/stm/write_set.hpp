// The writes of a transaction: the redo log of the write-back designs, the undo log of write-through.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tmflow/stm/lock_word.hpp"

namespace tmflow::stm {

template <template <class> class Atom>
class BasicDescriptor;

// One stripe that a transaction writes, in one cache line: new words (write-back) or old ones
// (write-through).
//
// Other threads reach an entry through a lock that it owns, at any time, even when it no longer owns it. They
// read only `owner`, which never changes, in memory that is never freed.
template <template <class> class Atom>
struct alignas(64) BasicStripeEntry {
  static constexpr LockWord kChained = ~LockWord{0};  // another entry of the transaction owns the lock

  BasicDescriptor<Atom>* owner = nullptr;
  LockWord before = 0;        // of the lock, when this entry took it; or kChained
  std::uintptr_t stripe = 0;  // its address
  std::uint32_t next = 0;     // the next entry under the same lock: its index + 1; 0: there is none
  // Which of its 4-byte words are present, for each pair of them: bit 0 for the first, bit 1 for the second.
  // There is one byte per pair. With a single mask, each of eight consecutive words would wait for the
  // previous one's change of the mask, which would take longer than everything else.
  unsigned char pairs[kStripeBytes / 8] = {};
  unsigned char bytes[kStripeBytes];

  template <Word T>
  TMFLOW_STM_INLINE bool has(const T* address) const noexcept {
    return (pairs[offset_of(address) / 8] & bits_of(address)) != 0;
  }

  template <Word T>
  TMFLOW_STM_INLINE T get(const T* address) const noexcept {
    return __builtin_bit_cast(T, *bits_at<T>(bytes + offset_of(address)));
  }

  template <Word T>
  TMFLOW_STM_INLINE void put(const T* address, T value) noexcept {
    *bits_at<T>(bytes + offset_of(address)) = __builtin_bit_cast(Bits<T>, value);
    if constexpr (sizeof(T) == 8) {
      pairs[offset_of(address) / 8] = 3;
    } else {
      pairs[offset_of(address) / 8] |= bits_of(address);
    }
  }

  // Saves the current values of `count` words from `address`, except those that are already present.
  template <Word T>
  TMFLOW_STM_INLINE void keep(const T* address, std::size_t count) noexcept {
    std::uint32_t any;
    __builtin_memcpy(&any, pairs, sizeof any);
    if (any == 0 && count * sizeof(T) == kStripeBytes) {
      for (std::size_t pair = 0; pair < kStripeBytes / 8; ++pair) {
        const auto* const both = reinterpret_cast<const std::uint64_t*>(stripe + 8 * pair);
        *bits_at<std::uint64_t>(bytes + 8 * pair) = Words<Atom>::load_owned(both);
      }
      __builtin_memset(pairs, 3, sizeof pairs);
      return;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (!has(address + i)) put(address + i, Words<Atom>::load_owned(address + i));
    }
  }

  // Stores the words that are present to memory, each as a whole; two neighbours, which may be one double,
  // together.
  TMFLOW_STM_INLINE void store_words() const noexcept {
    for (std::size_t pair = 0; pair < kStripeBytes / 8; ++pair) {
      const unsigned here = pairs[pair];
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
  TMFLOW_STM_INLINE static unsigned char bits_of(const T* address) noexcept {
    return sizeof(T) == 8 ? 3 : offset_of(address) % 8 == 0 ? 1 : 2;
  }

  template <Word T>
  TMFLOW_STM_INLINE void store_part(std::size_t offset) const noexcept {
    Words<Atom>::store_release(reinterpret_cast<T*>(stripe + offset), T{*bits_at<T>(bytes + offset)});
  }
};
using StripeEntry = BasicStripeEntry<std::atomic>;
static_assert(sizeof(StripeEntry) == 64);

// The entries of one thread's transaction, in the order in which they were added. They never move, because
// locks point to them. The set grows and never shrinks.
template <template <class> class Atom>
class BasicWriteSet {
 public:
  using StripeEntry = BasicStripeEntry<Atom>;
  using Descriptor = BasicDescriptor<Atom>;

  explicit BasicWriteSet(Descriptor& owner) : owner_(owner) { grow(), clear(); }

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
    __builtin_memset(entry.pairs, 0, sizeof entry.pairs);
    return entry;
  }

  TMFLOW_STM_INLINE void drop_last() noexcept {
    --free_;
    --size_;
  }

  // Chains the last entry to the lock that `head` owns.
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
