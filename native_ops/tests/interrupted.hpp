// Copies and kernels that run an action in their middle: every time at the same point, without a second
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <utility>

#include "tmflow/core/kernel.hpp"

namespace tmflow::seeded {

// The action that the next copy or kernel of this thread runs in its middle, once. Empty: none.
inline thread_local std::function<void()> in_the_middle;

inline void interrupt() {
  if (const auto what = std::exchange(in_the_middle, nullptr)) what();
}

// Atomic accesses: a reader may run beside a writer.
template <class T>
void interrupted_copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (i == n / 2) interrupt();
    to[i] = std::atomic_ref(const_cast<T&>(from[i])).load(std::memory_order_relaxed);
  }
}

template <class T>
void interrupted_kernel(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (i == n / 2) interrupt();
    std::atomic_ref element(variable[i]);
    element.store(element.load(std::memory_order_relaxed) - alpha * delta[i], std::memory_order_relaxed);
  }
}

}  // namespace tmflow::seeded
