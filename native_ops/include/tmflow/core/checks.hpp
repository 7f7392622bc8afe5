// What an update asks of its numbers and its memory, checked where they come from outside. NaN and infinity
// in the gradient are no errors: they pass through as the plain loop passes them.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>

namespace tmflow {

// `alpha` as the variable's type has it. Throws std::invalid_argument where that is no finite number: it
// would make every element NaN or infinite at once.
template <std::floating_point T>
T finite_alpha(double alpha) {
  const T value = static_cast<T>(alpha);
  if (std::isfinite(value)) return value;
  char number[32];
  std::snprintf(number, sizeof number, "%g", alpha);
  throw std::invalid_argument("alpha must be a finite number in float" + std::to_string(8 * sizeof(T)) +
                              ", not " + number);
}

// Throws std::invalid_argument unless every element of `memory`, which is called `name`, lies at a multiple
// of its size: a load or store of another one may be torn, and is no atomic access.
template <class T>
void check_aligned(std::span<T> memory, const char* name) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % sizeof(T) == 0 || memory.empty()) return;
  throw std::invalid_argument(std::string(name) + " is misaligned: its elements must lie at multiples of " +
                              std::to_string(sizeof(T)) + " bytes");
}

// Throws std::invalid_argument if an operand, which is called `name`, has memory in common with the variable:
// it would be read while it is written.
template <class T>
void check_apart(std::span<const T> variable, std::span<const T> operand, const std::string& name = "delta") {
  const std::less<const T*> before;
  const auto end = [](std::span<const T> memory) { return memory.data() + memory.size(); };
  if (variable.empty() || operand.empty()) return;
  if (before(variable.data(), end(operand)) && before(operand.data(), end(variable))) {
    throw std::invalid_argument(name + " overlaps the memory of the variable, which is written while " +
                                name + " is read: hand over a copy");
  }
}

}  // namespace tmflow
