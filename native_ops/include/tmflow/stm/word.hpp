// The words that transactions read and write, and the accesses to memory.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

// Inlined at every optimisation level. Otherwise the linker would find two copies, one optimised and one not,
// of a function that both builds of the update (src/stm/build.cc) use, and keep an arbitrary one.
#define TMFLOW_STM_INLINE [[gnu::always_inline]] inline

namespace tmflow::stm {

// The unit of reads and writes. Aligned to its size, and always accessed as the same type.
template <class T>
concept Word =
    std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8) && alignof(T) <= sizeof(T);

// The bits of a word, in an integer that may stand for any type of the program. Words are handled by their
// bits because compilers pass the result of a generic atomic builtin through memory.
template <std::size_t size>
struct BitsOfSize;
template <>
struct BitsOfSize<4> {
  using Type [[gnu::may_alias]] = std::uint32_t;
};
template <>
struct BitsOfSize<8> {
  using Type [[gnu::may_alias]] = std::uint64_t;
};
template <class T>
using Bits = typename BitsOfSize<sizeof(T)>::Type;

template <Word T>
TMFLOW_STM_INLINE const Bits<T>* bits_at(const void* address) noexcept {
  return static_cast<const Bits<T>*>(address);
}

template <Word T>
TMFLOW_STM_INLINE Bits<T>* bits_at(void* address) noexcept {
  return static_cast<Bits<T>*>(address);
}

// The memory order of a lock's readers and writers (a "seqlock"), without fences:
//
//   writer: take the lock (acquire), store words (release), store the lock's new version (release)
//   reader: load the lock (acquire), load words (acquire), load the lock again
//
// A reader that loads a word stored by some writer synchronises with that store, and so with the acquisition
// of the lock before it: its second load of the lock returns the writer's mark or something later, never the
// value of the first load. So if both loads of the lock agree, the word belongs to that version. Every access
// is atomic, which costs nothing on x86 and needs no annotation for ThreadSanitizer.
//
// Tests that control the schedule replace the words, as they replace atomics, with the same orders.
struct WordOrders {
  static constexpr int kLoad = __ATOMIC_ACQUIRE;
  static constexpr int kLoadOwned = __ATOMIC_RELAXED;
  static constexpr int kStore = __ATOMIC_RELEASE;
};

template <template <class> class Atom>
struct Words {
  template <Word T>
  TMFLOW_STM_INLINE static T load_acquire(const T* address) noexcept {
    return __builtin_bit_cast(T, __atomic_load_n(bits_at<T>(address), WordOrders::kLoad));
  }

  // For a word that only its owner writes: the lock on it is held.
  template <Word T>
  TMFLOW_STM_INLINE static T load_owned(const T* address) noexcept {
    return __builtin_bit_cast(T, __atomic_load_n(bits_at<T>(address), WordOrders::kLoadOwned));
  }

  template <Word T>
  TMFLOW_STM_INLINE static void store_release(T* address, T value) noexcept {
    __atomic_store_n(bits_at<T>(address), __builtin_bit_cast(Bits<T>, value), WordOrders::kStore);
  }
};

// A stripe is the memory that one lock covers: 32 aligned bytes, as in TinySTM.
inline constexpr std::size_t kStripeBytes = 32;

TMFLOW_STM_INLINE std::uintptr_t stripe_of(const void* address) noexcept {
  return reinterpret_cast<std::uintptr_t>(address) & ~std::uintptr_t{kStripeBytes - 1};
}

// The number of words from this one to the end of its stripe.
template <Word T>
TMFLOW_STM_INLINE std::size_t words_left(const T* address) noexcept {
  return (kStripeBytes - reinterpret_cast<std::uintptr_t>(address) % kStripeBytes) / sizeof(T);
}

}  // namespace tmflow::stm
