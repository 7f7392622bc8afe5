// lock_pthread: a std::mutex of ours around the whole update.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/sync/own_mutex.hpp"

namespace tmflow {

// Contract and memory ordering: those of OwnMutex. A pthread mutex is one that glibc can elide, which
// TensorFlow's own is not.
struct LockPthread : OwnMutex<std::mutex> {
  static constexpr StrategyInfo info{
      .name = "lock_pthread",
      .summary = "a pthread mutex of ours is held for the whole update",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .snapshots = Promise::tensor,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
