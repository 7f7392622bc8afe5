// Memory that shares no cache line with anything else.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "tmflow/measure/counters.hpp"

namespace tmflow {

// An allocator of whole cache lines. Neighbouring data cannot slow down an array or abort a transaction on
// it, and vectors of its elements never straddle a line. TensorFlow aligns its tensors in the same way.
template <class T>
struct OwnLines {
  using value_type = T;

  OwnLines() = default;
  template <class U>
  OwnLines(const OwnLines<U>&) noexcept {}

  T* allocate(std::size_t n) {
    const std::size_t lines = (n * sizeof(T) + kCacheLine - 1) / kCacheLine;
    return static_cast<T*>(::operator new(lines * kCacheLine, std::align_val_t{kCacheLine}));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t{kCacheLine});
  }

  bool operator==(const OwnLines&) const = default;
};

template <class T>
using LinesOf = std::vector<T, OwnLines<T>>;

// Starts to bring the first kilobytes of an array into the caches, and does not wait for them. A processor
// can wait for a few lines at a time only, so it would not gain by more.
template <class T>
void prefetch_lines(std::span<const T> array) noexcept {
  constexpr std::uintptr_t kFetched = 64;  // bytes, in one request of most processors
  constexpr std::size_t kMost = 4096;
  const auto begin = reinterpret_cast<std::uintptr_t>(array.data());
  const std::uintptr_t end = begin + std::min(array.size_bytes(), kMost);
  for (std::uintptr_t line = begin / kFetched * kFetched; line < end; line += kFetched) {
    __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
}

// One object on separate cache lines.
template <class T>
struct alignas(kCacheLine) Padded {
  template <class... Arguments>
  explicit Padded(Arguments&&... arguments) : value(std::forward<Arguments>(arguments)...) {}

  T value;
};

}  // namespace tmflow
