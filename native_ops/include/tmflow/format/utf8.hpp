// UTF-8: what is, and what is not.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tmflow {

// At the beginning of a text that is not empty: how many bytes its first character has. `valid` is false
// where they are none, but the longest beginning of one, or a byte that begins none.
struct Utf8Step {
  std::size_t bytes;
  bool valid;
};
Utf8Step utf8_step(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

// The text, with U+FFFD for each step that is not valid: as Python's bytes.decode(errors="replace").
std::string utf8_replaced(std::string_view bytes);

// The character of that code point, which is no surrogate.
void append_utf8(std::string& text, char32_t code_point);

}  // namespace tmflow
