// Eigen's loop. Compiled once for each build, as kernel_build.cc says, so all of it is local.
#pragma once

#include <cstddef>
#include <unsupported/Eigen/CXX11/Tensor>

namespace tmflow {
namespace {

// As TensorFlow's functor::ApplyGradientDescent has it (core/kernels/training_ops.cc).
template <class T>
void eigen(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  using Index = Eigen::DenseIndex;
  using Flat = Eigen::TensorMap<Eigen::Tensor<T, 1, Eigen::RowMajor, Index>>;
  using ConstFlat = Eigen::TensorMap<Eigen::Tensor<const T, 1, Eigen::RowMajor, Index>>;
  Flat var(variable, static_cast<Index>(n));
  const ConstFlat grad(delta, static_cast<Index>(n));
  var.device(Eigen::DefaultDevice()) -= grad * alpha;
}

}  // namespace
}  // namespace tmflow
