// atomic: every element is updated separately, without a lock.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "tmflow/core/strategy.hpp"

namespace tmflow {

// Contract: no update of an element is lost, and nothing more: two concurrent updates interleave element by
// element. An element has the single rounding of the plain loop, v - alpha * delta with the product rounded
// first, because the compare-exchange stores the value that was computed from the value that it replaces.
//
// Memory ordering: relaxed, because an element publishes nothing but itself: all its changes have one order,
// and each compare-exchange finds the latest.
template <template <class> class Ref = std::atomic_ref>
struct BasicAtomic {
  static constexpr StrategyInfo info{
      .name = "atomic",
      .summary = "each element is updated separately, by compare-exchange",
      .updates = Consistency::element,
      .reads = Consistency::element,
      .runs_kernel = false,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    update.for_each_part(0, memory.size(), [&](std::size_t begin, std::size_t n, const auto* gradient) {
      for (std::size_t i = 0; i < n; ++i) {
        typename R::Value product = update.alpha * gradient[i];
        asm("" : "+m"(product));  // rounded separately: no compiler may fuse it with the difference
        Ref element(memory[begin + i]);
        typename R::Value seen = element.load(std::memory_order_relaxed);
        while (!element.compare_exchange_weak(seen, seen - product, std::memory_order_relaxed)) {
        }
      }
    });
    stats.count_update();
  }
};

using Atomic = BasicAtomic<>;

}  // namespace tmflow
