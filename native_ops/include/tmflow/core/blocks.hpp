// The blocks of a variable.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tmflow {

// `elements` elements in blocks of `length` (at least 1); the last block may be shorter.
struct Blocks {
  std::size_t elements;
  std::size_t length;

  constexpr std::size_t count() const noexcept { return elements / length + (elements % length != 0); }
  constexpr std::size_t first(std::size_t block) const noexcept { return block * length; }
  constexpr std::size_t size(std::size_t block) const noexcept {
    return std::min(length, elements - first(block));
  }
};

}  // namespace tmflow
