// The blocks of a variable.
#pragma once

#include <algorithm>
#include <cstddef>

#include "tmflow/core/kernel.hpp"

namespace tmflow {

// The parameter of strategies whose critical sections may be parts of an update.
inline constexpr Parameter kChunk{.name = "chunk",
                                  .fallback = "0",
                                  .summary = "elements per critical section; 0: the whole variable",
                                  .high = 1'000'000'000};

inline std::size_t chunk_of(const Parameters& parameters) {
  return static_cast<std::size_t>(parameters.integer(kChunk.name));
}

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

// The length of a block that fits a variable of `elements` elements: a `share` of it, in multiples of
// `shortest`, at most `longest`.
struct FittedBlock {
  std::size_t share, shortest, longest;

  constexpr std::size_t of(std::size_t elements) const noexcept {
    return std::clamp(elements / share / shortest * shortest, shortest, longest);
  }
  // `given`, or if that is 0, the length that fits.
  constexpr std::size_t of(std::size_t given, std::size_t elements) const noexcept {
    return given == 0 ? of(elements) : given;
  }
};

// Visit the blocks that have one of these rows. They divide only after a gap: a division takes as long as the
// visit of a small block.
template <class T, class Visit>
void visit_forwards(const Blocks& blocks, const RowGradient<T>& rows, const Visit& visit) {
  std::size_t next = 0;  // all blocks before it have been visited, or are not touched
  for (std::size_t row = 0; row < rows.rows.size(); ++row) {
    const std::size_t end = rows.end_of(row);
    if (end <= blocks.first(next)) continue;
    if (rows.begin_of(row) >= blocks.end(next)) next = rows.begin_of(row) / blocks.length;
    for (; blocks.first(next) < end; ++next) visit(next, row);
  }
}

template <class T, class Visit>
void visit_backwards(const Blocks& blocks, const RowGradient<T>& rows, const Visit& visit) {
  std::size_t next = blocks.count();  // it and all blocks after it have been visited, or are not touched
  for (std::size_t row = rows.rows.size(); row-- > 0;) {
    const std::size_t begin = rows.begin_of(row), end = rows.end_of(row);
    if (begin >= blocks.first(next)) continue;
    if (end <= blocks.first(next - 1)) next = (end - 1) / blocks.length + 1;
    std::size_t first = row;
    while (next > 0 && blocks.end(next - 1) > begin) {
      --next;
      while (first > 0 && rows.end_of(first - 1) > blocks.first(next)) --first;
      visit(next, first);
    }
  }
}

// Runs `visit(block, row)` on the blocks that an update may change, in order or in reverse. If the gradient
// is one of rows, `row` is the index of the first row that ends after the beginning of the block.
template <class T, class Visit>
void for_each_touched(const Blocks& blocks, const GradientDescent<T>& update, bool backwards,
                      const Visit& visit) {
  const std::size_t count = blocks.count();
  if (update.rows == nullptr) {
    for (std::size_t i = 0; i < count; ++i) visit(backwards ? count - 1 - i : i, std::size_t{0});
  } else if (backwards) {
    visit_backwards(blocks, *update.rows, visit);
  } else {
    visit_forwards(blocks, *update.rows, visit);
  }
}

// Runs `section(first, count, row)` on the chunks of `length` elements that an update may change; 0: one
// chunk, the whole variable. `row`: as in for_each_touched.
template <class T, class Section>
void for_each_chunk(const GradientDescent<T>& update, std::size_t length, const Section& section) {
  const std::size_t size = update.size();
  if (length == 0) return section(std::size_t{0}, size, std::size_t{0});
  const Blocks chunks{size, length};
  for_each_touched(chunks, update, false, [&](std::size_t chunk, std::size_t row) {
    section(chunks.first(chunk), chunks.size(chunk), row);
  });
}

}  // namespace tmflow
