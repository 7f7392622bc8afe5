// A transaction with a bug: the library does not see what its body reads and writes.
#pragma once

#include <functional>

#include "tmflow/core/strategy.hpp"

namespace tmflow::seeded {

void in_blind_transaction(const std::function<void()>& body) noexcept;

// Updates in such transactions. If the method runs two transactions at the same time, both threads enter.
struct BlindTransactions {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    in_blind_transaction([&] { update(memory, 0, memory.size()); });
    stats.count_update();
  }
};

}  // namespace tmflow::seeded
