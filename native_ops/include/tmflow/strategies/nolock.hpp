// nolock: no synchronisation of updates ("Hogwild"), as TensorFlow's use_locking=False.
#pragma once

#include <optional>
#include <string>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/strategy.hpp"

namespace tmflow {

// Contract: none. Two concurrent updates of an element may leave only one of them. A single element is never
// torn: it is aligned, and the supported machines load and store it as a whole. Memory ordering: none, which
// C++ calls a data race and leaves undefined. The study measures exactly this. The loop is compiled
// separately from its callers, so that the compiler has no second access to reason about. tests/tsan.supp
// names the race, with this reason.
//
// A chunk changes nothing but the loop, which runs on one chunk after another: this shows what dividing an
// update into chunks costs by itself.
class NoLock {
 public:
  static constexpr Parameter kParameters[] = {kChunk};
  static constexpr StrategyInfo info{
      .name = "nolock",
      .summary = "nothing is held: concurrent updates may overwrite each other",
      .updates = Consistency::none,
      .reads = Consistency::element,
      .parameters = kParameters,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  NoLock() = default;
  explicit NoLock(const Parameters& parameters) : chunk_(chunk_of(parameters)) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) const {
    const auto memory = region.memory(Holding::nothing);
    for_each_chunk(update, chunk_, [&](std::size_t first, std::size_t count, std::size_t row) {
      update(memory, first, count, row);
    });
    stats.count_update();
  }

 private:
  const std::size_t chunk_ = 0;
};

}  // namespace tmflow
