// The explorer's replacements for atomics, for waiting and for the loops over elements.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "explorer.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/fence.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::explore {

template <class T>
std::uint64_t bits_of(const T& value) noexcept {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
Effect seen(const T& value) noexcept {
  return {.wrote = false, .changed = false, .bits = bits_of(value), .is_float = std::is_floating_point_v<T>};
}

// The value that a load of `at` gives.
template <class T>
T loaded(const T& at) noexcept {
  const std::uint64_t bits = done_loading(bits_of(at), std::is_floating_point_v<T>);
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Stores `value` to `at`.
template <class T>
Effect written(T& at, const T& value) noexcept {
  const std::uint64_t before = bits_of(at), after = bits_of(value);
  at = value;
  return {true, before != after, after, std::is_floating_point_v<T>, before};
}

// The operations of std::atomic on `Self::place()`, each a step. A weak compare-exchange never fails
// spuriously.
template <class Self, class T>
class Operations {
 public:
  using value_type = T;

  T load(std::memory_order order = std::memory_order_seq_cst) const noexcept {
    turn(Kind::load, order);
    return loaded(at());
  }
  operator T() const noexcept { return load(); }

  void store(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    turn(Kind::store, order);
    done(written(at(), value));
  }

  T exchange(T value, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T) { return value; });
  }

  bool compare_exchange_strong(T& expected, T desired, std::memory_order order,
                               std::memory_order failed) noexcept {
    take_turn({Kind::compare, order, place_at(&at()), false, failed});
    if (bits_of(at()) == bits_of(expected)) {
      done(written(at(), desired));
      return true;
    }
    done(seen(at()));
    expected = at();
    return false;
  }
  bool compare_exchange_strong(T& expected, T desired,
                               std::memory_order order = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, desired, order, of_failure(order));
  }
  bool compare_exchange_weak(T& expected, T desired, std::memory_order order,
                             std::memory_order failed) noexcept {
    return compare_exchange_strong(expected, desired, order, failed);
  }
  bool compare_exchange_weak(T& expected, T desired,
                             std::memory_order order = std::memory_order_seq_cst) noexcept {
    return compare_exchange_strong(expected, desired, order);
  }

  template <class N>
  T fetch_add(N n, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T value) { return static_cast<T>(value + n); });
  }
  template <class N>
  T fetch_sub(N n, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T value) { return static_cast<T>(value - n); });
  }
  T fetch_or(T mask, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T value) { return static_cast<T>(value | mask); });
  }
  T fetch_and(T mask, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T value) { return static_cast<T>(value & mask); });
  }
  T fetch_xor(T mask, std::memory_order order = std::memory_order_seq_cst) noexcept {
    return update(order, [&](T value) { return static_cast<T>(value ^ mask); });
  }

 private:
  T& at() const noexcept { return static_cast<const Self*>(this)->place(); }
  void turn(Kind kind, std::memory_order order) const noexcept { take_turn({kind, order, place_at(&at())}); }

  template <class F>
  T update(std::memory_order order, const F& f) noexcept {
    turn(Kind::update, order);
    const T before = at();
    done(written(at(), f(before)));
    return before;
  }

  static std::memory_order of_failure(std::memory_order order) noexcept {
    if (order == std::memory_order_acq_rel) return std::memory_order_acquire;
    return order == std::memory_order_release ? std::memory_order_relaxed : order;
  }
};

// Replaces std::atomic.
template <class T>
class Atom : public Operations<Atom<T>, T> {
 public:
  constexpr Atom() noexcept = default;
  constexpr Atom(T value) noexcept : value_(value) {}
  Atom(const Atom&) = delete;
  Atom& operator=(const Atom&) = delete;
  T operator=(T value) noexcept {
    this->store(value);
    return value;
  }

  T& place() const noexcept { return value_; }

 private:
  mutable T value_{};
};

// Replaces std::atomic_ref.
template <class T>
class Ref : public Operations<Ref<T>, T> {
 public:
  explicit Ref(T& value) noexcept : value_(value) {}

  T& place() const noexcept { return value_; }

 private:
  T& value_;
};

// Replaces a mutex. Locking is one step, which is enabled while the mutex is free: the failed tries of a spin
// lock change nothing and are left out.
class Mutex {
 public:
  void lock() noexcept {
    take_turn({Kind::lock, std::memory_order_acquire, place_at(&word_.place())});
    done(written<std::uint32_t>(word_.place(), 1));
  }
  void unlock() noexcept {
    take_turn({Kind::unlock, std::memory_order_release, place_at(&word_.place())});
    done(written<std::uint32_t>(word_.place(), 0));
  }

  // For threads that check whether the mutex is taken: 0 when it is free.
  const Atom<std::uint32_t>& word() const noexcept { return word_; }

 private:
  Atom<std::uint32_t> word_{0};
};

// The accesses of elements. `racy`: the strategy's contract allows others to touch them at the same time.
template <class T>
T read_element(const T* address, bool racy) noexcept {
  take_turn({Kind::read, std::memory_order_relaxed, place_at(address), racy});
  return loaded(*address);
}

template <class T>
void write_element(T* address, T value, bool racy) noexcept {
  take_turn({Kind::write, std::memory_order_relaxed, place_at(address), racy});
  done(written(*address, value));
}

template <class T, bool racy = false>
void kernel(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const T value = read_element(variable + i, racy);
    write_element(variable + i, value - alpha * delta[i], racy);
  }
}

// For a gradient whose memory is reused: reading it is a step, too.
template <class T>
void fresh_kernel(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const T product = alpha * read_element(delta + i, false);
    write_element(variable + i, read_element(variable + i, false) - product, false);
  }
}

template <class T>
void copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) write_element(to + i, read_element(from + i, false), false);
}

// For readers that check afterwards whether an update wrote during the copy.
template <class T>
void racy_copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = read_element(from + i, true);
    keep(to + i);
  }
}

}  // namespace tmflow::explore

namespace tmflow {

template <>
struct Waiting<explore::Atom> {
  static void once(Turn) noexcept { explore::wait(); }
};

template <>
struct Fence<explore::Atom> {
  static void issue(std::memory_order order) noexcept { explore::fence(order); }
};

}  // namespace tmflow
