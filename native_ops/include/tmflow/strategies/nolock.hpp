// nolock: nothing keeps updates apart ("Hogwild"), as TensorFlow's use_locking=False.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"

namespace tmflow {

// Contract: none. Two updates of an element at once may leave only one of them. An element itself is never
// torn: it is aligned, and the machines we run on load and store it whole. Memory ordering: none, which C++
// calls a data race and leaves undefined. It is what the study measures; the loop is compiled apart from its
// callers, so that the compiler has no second access to reason about. The race is named, with this reason, in
// tests/tsan.supp.
struct NoLock {
  static constexpr StrategyInfo info{
      .name = "nolock",
      .summary = "nothing is held: concurrent updates may overwrite each other",
      .updates = Promise::none,
      .reads = Promise::element,
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
