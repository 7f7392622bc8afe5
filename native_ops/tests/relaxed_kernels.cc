// The loops over elements with atomic accesses, in place of src/kernels.cc, for ThreadSanitizer.
//
// The readers of `block_stm`, and of `adaptive` while it uses block_stm, copy elements that may be written at
// the same time, and discard the copy if they were. With the plain loops that is a data race: C++ leaves it
// undefined, and ThreadSanitizer reports it. Here each element is loaded and stored by a relaxed atomic
// access, which C++ defines and which orders nothing. So ThreadSanitizer reports only what the strategies
// themselves fail to order.
//
// The usual builds keep the plain loops, because no compiler that we use vectorises atomic accesses.
#include <atomic>

#include "tmflow/core/kernel.hpp"

namespace tmflow {
namespace {

template <class T>
T load(const T& element) noexcept {
  return std::atomic_ref(const_cast<T&>(element))
      .load(std::memory_order_relaxed);  // C++20 has none of const T
}

template <class T>
void store(T& element, T value) noexcept {
  std::atomic_ref(element).store(value, std::memory_order_relaxed);
}

template <class T>
void relaxed(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) store(variable[i], load(variable[i]) - alpha * delta[i]);
}

template <class T>
void relaxed_copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) store(to[i], load(from[i]));
}

}  // namespace

std::optional<std::string> kernel_why_not(std::string_view kernel) {
  if (kernel == "plain") return std::nullopt;
  return "kernel " + std::string(kernel) + " has no relaxed accesses";
}

void clear_upper_halves() noexcept {}

template <>
Kernel<float> find_kernel(std::string_view, std::string_view) noexcept {
  return relaxed<float>;
}

template <>
Kernel<double> find_kernel(std::string_view, std::string_view) noexcept {
  return relaxed<double>;
}

// The loop of these tests writes every element.
template <>
bool skips_zeros(Kernel<float>) noexcept {
  return false;
}

template <>
bool skips_zeros(Kernel<double>) noexcept {
  return false;
}

template <>
Copy<float> find_copy() noexcept {
  return relaxed_copy<float>;
}

template <>
Copy<double> find_copy() noexcept {
  return relaxed_copy<double>;
}

// No test of readers multiplies the factors of a gradient.
template <>
DenseKernel<float> find_dense_kernel(std::string_view) noexcept {
  return nullptr;
}

template <>
DenseKernel<double> find_dense_kernel(std::string_view) noexcept {
  return nullptr;
}

// Nor does one have the slots of an optimiser.
template <>
SlotKernel<float> find_slot_kernel(Optimiser, std::string_view) noexcept {
  return nullptr;
}

template <>
SlotKernel<double> find_slot_kernel(Optimiser, std::string_view) noexcept {
  return nullptr;
}

}  // namespace tmflow
