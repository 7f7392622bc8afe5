// nolock: no synchronisation of updates ("Hogwild"), as TensorFlow's use_locking=False.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"

namespace tmflow {

// Contract: none. Two concurrent updates of an element may leave only one of them. A single element is never
// torn: it is aligned, and the supported machines load and store it as a whole. Memory ordering: none, which
// C++ calls a data race and leaves undefined. The study measures exactly this. The loop is compiled
// separately from its callers, so that the compiler has no second access to reason about. tests/tsan.supp
// names the race, with this reason.
struct NoLock {
  static constexpr StrategyInfo info{
      .name = "nolock",
      .summary = "nothing is held: concurrent updates may overwrite each other",
      .updates = Consistency::none,
      .reads = Consistency::element,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    update(memory, 0, memory.size());
    stats.count_update();
  }
};

}  // namespace tmflow
