// striped: fixed blocks of the variable, each with a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/core/stripes.hpp"

namespace tmflow {

// Contract: updates of a block are serialised and none is lost; two blocks may see two updates in different
// orders. An update updates each block that it touches exactly once: it reaches each of them once, and
// processes postponed blocks at the end. An update of rows passes by all other blocks. With blocks of one
// row, each row has a lock. No thread ever waits while it holds a lock, so there is no deadlock. A snapshot
// has each block as it was between two updates of it. There is no ordering with readers outside the strategy,
// or with operations that replace the variable's memory: an update that overlaps an assignment of the whole
// variable may be lost.
//
// The order of the blocks: see update_stripes.
//
// Memory ordering: locking a block acquires, unlocking it releases, so each update of the block sees all
// earlier ones. The locks themselves: see LazyBySize.
template <template <class> class Atom = std::atomic>
class BasicStriped {
 public:
  static constexpr Parameter kParameters[] = {kStripe};
  static constexpr StrategyInfo info{
      .name = "striped",
      .summary = "each block of the variable has a lock; an update takes and releases one after another",
      .updates = Consistency::block,
      .reads = Consistency::element,
      .snapshots = Consistency::block,
      .parameters = kParameters,
      .updates_over = stripe_consistency,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicStriped(std::size_t block) : block_(block) {}
  explicit BasicStriped(const Parameters& parameters)
      : BasicStriped(static_cast<std::size_t>(parameters.integer("block"))) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes =
        stripes_.of(memory.size(), memory.size(), kFittedStripe.of(block_, memory.size()));
    update_by_block(stripes, update, memory, stats);
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes =
        stripes_.of(memory.size(), memory.size(), kFittedStripe.of(block_, memory.size()));
    read_by_block(stripes, reading, std::span<const typename R::Value>(memory), stats);
  }

 private:
  using Stripes = BasicStripes<Atom>;

  const std::size_t block_;
  LazyBySize<Stripes, Atom> stripes_;
};

using Striped = BasicStriped<>;

}  // namespace tmflow
