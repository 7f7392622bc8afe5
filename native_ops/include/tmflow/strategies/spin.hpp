// spin: a spin lock of ours around the whole update.
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
      .summary = "a spin lock of ours is held for the whole update",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .snapshots = Promise::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
