// Memory that shares no cache line with anything else.
#pragma once

#include <cstddef>
#include <new>
#include <utility>
#include <vector>

#include "tmflow/measure/counters.hpp"

namespace tmflow {

// An allocator of whole cache lines: what lies beside an array neither slows it down nor aborts a transaction
// on it, and vectors of its elements never straddle a line. TensorFlow aligns its tensors likewise.
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

// One object, likewise.
template <class T>
struct alignas(kCacheLine) Apart {
  template <class... Arguments>
  explicit Apart(Arguments&&... arguments) : its(std::forward<Arguments>(arguments)...) {}

  T its;
};

}  // namespace tmflow
