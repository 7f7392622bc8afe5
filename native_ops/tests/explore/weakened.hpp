// Atomics that are weaker than a strategy requires. As its template parameter they give any strategy the bug
// of a wrong memory order, or of an update in two steps.
#pragma once

#include "atom.hpp"
#include "tmflow/combining/publications.hpp"
#include "tmflow/sync/thread_number.hpp"

namespace tmflow::explore {

// Its stores release nothing.
template <class T>
class Unreleased : public Atom<T> {
 public:
  using Atom<T>::Atom;
  void store(T value, std::memory_order = std::memory_order_relaxed) noexcept {
    Atom<T>::store(value, std::memory_order_relaxed);
  }
};

// Its exchange is a load followed by a store.
template <class T>
class InTwoSteps : public Atom<T> {
 public:
  using Atom<T>::Atom;
  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    const T before = this->load(order);
    this->store(value, order);
    return before;
  }
};

// Its exchange and its stores change nothing, so a lock of it keeps no thread out.
template <class T>
class Unchanged : public Atom<T> {
 public:
  using Atom<T>::Atom;
  T exchange(T, std::memory_order order = std::memory_order_seq_cst) noexcept { return this->load(order); }
  void store(T, std::memory_order = std::memory_order_seq_cst) noexcept {}
};

}  // namespace tmflow::explore

namespace tmflow {

template <>
struct Waiting<explore::Unreleased> : Waiting<explore::Atom> {};
template <>
struct Waiting<explore::InTwoSteps> : Waiting<explore::Atom> {};
template <>
struct Waiting<explore::Unchanged> : Waiting<explore::Atom> {};

template <>
struct Fence<explore::Unreleased> : Fence<explore::Atom> {};
template <>
struct Fence<explore::InTwoSteps> : Fence<explore::Atom> {};

template <>
struct ThreadNumber<explore::Atom> {
  static unsigned own() noexcept { return static_cast<unsigned>(explore::running_thread()); }
};
template <>
struct ThreadNumber<explore::Unreleased> : ThreadNumber<explore::Atom> {};
template <>
struct ThreadNumber<explore::InTwoSteps> : ThreadNumber<explore::Atom> {};
template <>
struct ThreadNumber<explore::Unchanged> : ThreadNumber<explore::Atom> {};

// Each thread begins with its own seat, whatever it did before.
template <>
struct LastSeat<explore::Atom> {
  struct Own {
    operator std::size_t&() const noexcept {
      static std::size_t seat;
      return seat = static_cast<std::size_t>(explore::running_thread());
    }
  };
  static constexpr Own of_thread{};
};
template <>
struct LastSeat<explore::Unreleased> : LastSeat<explore::Atom> {};
template <>
struct LastSeat<explore::InTwoSteps> : LastSeat<explore::Atom> {};

}  // namespace tmflow
