// Eigen's loop. It is compiled once for each build, as kernel_build.cc explains, so everything is local.
#pragma once

#include <cstddef>
#include <unsupported/Eigen/CXX11/Tensor>

namespace tmflow {
namespace {

// As in TensorFlow's functor::ApplyGradientDescent (core/kernels/training_ops.cc).
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
