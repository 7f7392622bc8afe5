// Replaces eigen_loop.hpp if the build has no Eigen; kernel_why_not reports it.
#pragma once

#include "tmflow/core/kernel.hpp"

namespace tmflow {
namespace {

template <class T>
constexpr Kernel<T> eigen = nullptr;

}  // namespace
}  // namespace tmflow
