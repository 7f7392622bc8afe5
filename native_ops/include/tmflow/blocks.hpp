// The blocks that a variable is cut into, and the parameter that says how long they are.
#pragma once

#include <algorithm>
#include <cstddef>

namespace tmflow {

// `elements` elements in blocks of `length`, the last one perhaps shorter. Length 0: one block of them all.
struct Blocks {
  std::size_t elements;
  std::size_t length;

  constexpr Blocks(std::size_t all, std::size_t of_a_block)
      : elements(all), length(of_a_block == 0 ? std::max<std::size_t>(all, 1) : of_a_block) {}

  constexpr std::size_t count() const noexcept { return elements / length + (elements % length != 0); }
  constexpr std::size_t first(std::size_t block) const noexcept { return block * length; }
  constexpr std::size_t size(std::size_t block) const noexcept {
    return std::min(length, elements - first(block));
  }
};

}  // namespace tmflow
