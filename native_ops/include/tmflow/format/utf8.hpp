// UTF-8 decoding and encoding.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tmflow {

// At the beginning of a non-empty text: the number of bytes of its first character. If they are invalid,
// `valid` is false and it is the length of the longest valid prefix, or of a byte that begins no character.
struct Utf8Step {
  std::size_t bytes;
  bool valid;
};
Utf8Step utf8_step(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

// The text, with U+FFFD for each invalid sequence, as Python's bytes.decode(errors="replace").
std::string utf8_replaced(std::string_view bytes);

// The character of that code point, which must not be a surrogate.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace tmflow
