// A copy of memory that transactions write, as it was at one moment.
#pragma once

#include <cstddef>

#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/read_locked.hpp"
#include "tmflow/stm/read_only.hpp"

namespace tmflow::stm {

// How often a reader tries without locks. If it reads as much as the writers write, usually one of them has
// committed since it began.
inline constexpr int kReadings = 8;

// Copies `count` words as they were between two transactions of the domain. It first runs as ReadOnly, which
// writers do not notice, and after `readings` failed attempts as ReadLocked. So it starves only where a
// writer of the same words would, because it then requests the same locks, in the same order, under the same
// manager.
template <class Manager, class Policy = Sound, Word T>
void snapshot(typename Policy::Domain& domain, ThreadStats& stats, const T* variable, T* into,
              std::size_t count, int readings = kReadings) {
  const auto copy = [=](auto& transaction) {
    for (std::size_t first = 0, here = 0; first < count; first += here) {
      const std::size_t left = words_left(variable + first);
      here = left < count - first ? left : count - first;
      if (!transaction.load(variable + first, here, into + first)) return false;
    }
    return true;
  };
  const auto patient = [&](ReadOnly<Manager, Policy>& transaction) {
    return readings-- > 0 ? copy(transaction) : transaction.abort();
  };
  if (!atomically<ReadOnly, Manager, Policy>(domain, stats, patient)) {
    atomically<ReadLocked, Manager, Policy>(domain, stats, copy);
  }
}

}  // namespace tmflow::stm
