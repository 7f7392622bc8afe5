// Checks of the numbers and the memory of an update, for values that come from outside. NaN and infinity in
// the gradient are no errors: they propagate as in the plain loop.
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

// `alpha` in the type of the variable. Throws std::invalid_argument if it is not finite, because a single
// update would make every element NaN or infinite.
template <std::floating_point T>
T finite_alpha(double alpha) {
  const T value = static_cast<T>(alpha);
  if (std::isfinite(value)) return value;
  char number[32];
  std::snprintf(number, sizeof number, "%g", alpha);
  throw std::invalid_argument("alpha must be a finite number in float" + std::to_string(8 * sizeof(T)) +
                              ", not " + number);
}

// Throws std::invalid_argument unless every element of `memory`, which is called `name`, is aligned to its
// size: a load or store of an unaligned element may be torn and is not atomic.
template <class T>
void check_aligned(std::span<T> memory, const char* name) {
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % sizeof(T) == 0 || memory.empty()) return;
  throw std::invalid_argument(std::string(name) +
                              " is misaligned: the addresses of its elements must be multiples of " +
                              std::to_string(sizeof(T)) + " bytes");
}

// Throws std::invalid_argument if an operand, which is called `name`, overlaps the variable, which is called
// `of`: it would be read while it is written.
template <class T>
void check_apart(std::span<const T> variable, std::span<const T> operand, const std::string& name = "delta",
                 const std::string& of = "the variable") {
  const std::less<const T*> before;
  const auto end = [](std::span<const T> memory) { return memory.data() + memory.size(); };
  if (variable.empty() || operand.empty()) return;
  if (before(variable.data(), end(operand)) && before(operand.data(), end(variable))) {
    throw std::invalid_argument(name + " overlaps the memory of " + of + ", which is written while " + name +
                                " is read: pass a copy");
  }
}

}  // namespace tmflow
