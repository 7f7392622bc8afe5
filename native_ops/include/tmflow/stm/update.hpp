// The update and the copy as software transactions, compiled separately for each optimisation.
#pragma once

#include <concepts>
#include <cstddef>
#include <string_view>

#include "tmflow/core/kernel.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/domain.hpp"

namespace tmflow::stm {

// variable[i] -= alpha * gradient[i] for the elements of the gradient's rows. The variable is divided into
// chunks of `chunk` elements; the touched elements of a chunk are one transaction.
template <std::floating_point T>
struct Update {
  T* variable;
  RowPointers<T> gradient;
  T alpha;
  std::size_t chunk;
};

template <std::floating_point T>
using Loop = void (*)(const Update<T>& update, Domain& domain, ThreadStats& stats);

// A copy of `size` elements into `into`, in transactions of `chunk` elements each.
template <std::floating_point T>
struct Snapshot {
  const T* variable;
  T* into;
  std::size_t size;
  std::size_t chunk;
};

template <std::floating_point T>
using SnapshotLoop = void (*)(const Snapshot<T>& snapshot, Domain& domain, ThreadStats& stats);

// A variant of the loop, selected by the values of the strategy's parameters.
struct LoopName {
  std::string_view design, manager, instrumentation, optimisation;
};

// The loop of that name (src/stm/build.cc); the parts must be values that the strategy allows.
template <std::floating_point T>
Loop<T> find_loop(const LoopName& name) noexcept;

// The copy loop of the same manager and optimisation; the other parts do not affect it.
template <std::floating_point T>
SnapshotLoop<T> find_snapshot_loop(const LoopName& name) noexcept;

}  // namespace tmflow::stm
