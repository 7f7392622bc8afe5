// spin: a spin lock of ours around the whole update.
#pragma once

#include <mutex>
#include <optional>
#include <string>

#include "tmflow/spin_lock.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: as `lock_pthread`. Memory ordering: that of SpinLock.
class Spin {
 public:
  static constexpr StrategyInfo info{
      .name = "spin",
      .summary = "a spin lock of ours is held for the whole update",
      .updates = Promise::tensor,
      .reads = Promise::element,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    {
      const std::lock_guard held(lock_);
      update(memory, 0, memory.size());
    }
    stats.count_update();
  }

 private:
  SpinLock lock_;
};

}  // namespace tmflow
