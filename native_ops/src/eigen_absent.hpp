// In place of eigen_loop.hpp where the build had no Eigen; kernel_why_not says so.
#pragma once

#include "tmflow/core/kernel.hpp"

namespace tmflow {
namespace {

template <class T>
constexpr Kernel<T> eigen = nullptr;

}  // namespace
}  // namespace tmflow
