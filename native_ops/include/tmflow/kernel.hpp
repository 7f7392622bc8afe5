// The update itself, variable[i] -= alpha * delta[i], in every form that the study compared without knowing
// it.
#pragma once

#include <cassert>
#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>

#include "tmflow/parameters.hpp"

namespace tmflow {

// A loop over `n` elements that reads and writes each once, in order of address. The product is rounded
// before the difference is (no fused multiply-add), so every kernel on every machine computes the same bits.
//
// It may leave the upper halves of the vector registers as they are, because clearing them would abort a
// hardware transaction (src/htm_rtm.cc): whoever calls it clears them afterwards.
template <std::floating_point T>
using Kernel = void (*)(T* variable, const T* delta, T alpha, std::size_t n) noexcept;

// What x86 wants after wide vectors were used, lest the narrow ones be slow; nothing elsewhere.
void clear_upper_halves() noexcept;

inline constexpr Parameter kKernelParameters[] = {
    {.name = "kernel",
     .fallback = "plain",
     .summary = "the loop of the update: a plain one, or Eigen's as in TensorFlow",
     .choices = "plain, eigen"},
    {.name = "optimisation",
     .fallback = "O3",
     .summary = "how that loop is compiled: the study's builds were probably not optimised",
     .choices = "O0, O3"},
};

// The kernel of that name and optimisation, for the widest vectors that this processor has. Compiled apart,
// once for each optimisation and width (src/kernel_build.cc), and chosen when the program runs.
template <std::floating_point T>
Kernel<T> find_kernel(std::string_view kernel = "plain", std::string_view optimisation = "O3") noexcept;

// One step of gradient descent on one variable.
template <std::floating_point T>
struct GradientDescent {
  T alpha;
  std::span<const T> delta;
  Kernel<T> kernel = find_kernel<T>();

  // Update the elements [first, first + count) of a variable of delta.size() elements.
  void operator()(std::span<T> variable, std::size_t first, std::size_t count) const noexcept {
    in_transaction(variable, first, count);
    clear_upper_halves();
  }

  // The same inside a hardware transaction; after it, clear_upper_halves.
  void in_transaction(std::span<T> variable, std::size_t first, std::size_t count) const noexcept {
    assert(variable.size() == delta.size() && first + count <= delta.size());
    kernel(variable.data() + first, delta.data() + first, alpha, count);
  }
};

}  // namespace tmflow
