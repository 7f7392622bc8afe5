// spin: a private spin lock around the whole update.
#pragma once

#include <optional>
#include <string>

#include "tmflow/sync/own_mutex.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow {

// Contract and memory ordering: those of OwnMutex.
struct Spin : OwnMutex<SpinLock> {
  static constexpr StrategyInfo info{
      .name = "spin",
      .summary = "a spin lock is held for the whole update",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
