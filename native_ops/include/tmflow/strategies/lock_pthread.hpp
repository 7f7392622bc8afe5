// lock_pthread: a private std::mutex around the whole update.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/sync/own_mutex.hpp"

namespace tmflow {

// Contract and memory ordering: those of OwnMutex. glibc can elide a pthread mutex, but not TensorFlow's own.
struct LockPthread : OwnMutex<std::mutex> {
  static constexpr StrategyInfo info{
      .name = "lock_pthread",
      .summary = "a pthread mutex of tmflow is held for the whole update",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
