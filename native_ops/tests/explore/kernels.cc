// The loops over elements, in place of src/kernels.cc: each access is a step.
#include "atom.hpp"
#include "tmflow/core/kernel.hpp"

namespace tmflow {

void clear_upper_halves() noexcept {}

template <>
Kernel<float> find_kernel(std::string_view, std::string_view) noexcept {
  return explore::kernel<float>;
}

template <>
Kernel<double> find_kernel(std::string_view, std::string_view) noexcept {
  return explore::kernel<double>;
}

// The explored kernel writes every element.
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
  return explore::copy<float>;
}

template <>
Copy<double> find_copy() noexcept {
  return explore::copy<double>;
}

// Unused: no program here multiplies the factors of a gradient.
template <>
DenseKernel<float> find_dense_kernel(std::string_view) noexcept {
  return nullptr;
}

template <>
DenseKernel<double> find_dense_kernel(std::string_view) noexcept {
  return nullptr;
}

}  // namespace tmflow
