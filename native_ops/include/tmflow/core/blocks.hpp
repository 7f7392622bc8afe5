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
  constexpr std::size_t end(std::size_t block) const noexcept { return first(block) + size(block); }
};

// Runs `visit(block)` on the blocks that an update of the elements may change, in order or in reverse.
template <class Update, class Visit>
void for_each_touched(const Blocks& blocks, const Update& update, bool backwards, const Visit& visit) {
  // Divides only after blocks that are not touched: small blocks are visited in about the time of a division.
  if (backwards) {
    std::size_t block = blocks.count();
    for (std::size_t before = blocks.elements, end; (end = update.touched_before(before)) > 0;
         before = blocks.first(block)) {
      block = end == before ? block - 1 : (end - 1) / blocks.length;
      visit(block);
    }
  } else {
    std::size_t block = 0;
    for (std::size_t from = 0, first; (first = update.touched_from(from)) < blocks.elements;
         from = blocks.end(block), ++block) {
      if (first != from) block = first / blocks.length;
      visit(block);
    }
  }
}

}  // namespace tmflow
