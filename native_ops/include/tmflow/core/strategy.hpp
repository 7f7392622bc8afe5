// The interface of a strategy: all strategies of synchronising updates implement it.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/parameters.hpp"
#include "tmflow/core/region.hpp"
#include "tmflow/measure/counters.hpp"

namespace tmflow {

// The consistency that a strategy guarantees under concurrency.
enum class Consistency {
  none,     // an update, or a part of one, may be lost
  element,  // every element by itself
  block,    // a block of elements together
  tensor,   // all elements of a variable together
  step,     // all variables of a step together
};

constexpr std::string_view name_of(Consistency consistency) {
  constexpr std::string_view names[] = {"none", "element", "block", "tensor", "step"};
  return names[static_cast<int>(consistency)];
}

// The consistency of updates of a whole variable that are made `part` elements at a time; 0: all at once.
constexpr Consistency consistency_in_parts(std::int64_t part, std::size_t elements) {
  return 0 < part && static_cast<std::size_t>(part) < elements ? Consistency::block : Consistency::tensor;
}

struct StrategyInfo {
  std::string_view name;     // also the name of its file
  std::string_view summary;  // one line
  Consistency updates;
  Consistency reads;                          // of plain reads, outside the strategy
  Consistency snapshots = Consistency::none;  // of its own `read`; none: it has no `read`
  std::span<const Parameter> parameters = {};
  bool runs_kernel = true;   // then it has the kernel's parameters too; false if it has another loop
  bool own_process = false;  // it can be created only in a process that was started for it
  // Whether its updates fetch the memory under the variable's mutex and write it only under that mutex; null
  // if they never do.
  bool (*fetches_under_mutex)(const Parameters&) = nullptr;
  // Checks that the parameters are compatible; throws std::invalid_argument if not.
  void (*check)(const Parameters&) = nullptr;
  // The consistency of updates of a variable with that many elements, if it depends on the parameters;
  // otherwise it is `updates`. src/tmflow/benchmark/plan.py has the same rule, and a test compares the
  // two.
  Consistency (*updates_over)(const Parameters&, std::size_t elements) = nullptr;
};

// A strategy object belongs to one variable, and its members are the strategy's state for that variable. A
// strategy without state is an empty struct with a static `apply`. A strategy with parameters is constructed
// from their values, any other one by default.
// `apply` may be called by any number of threads at the same time. It updates every element of the region's
// memory once and counts in `stats`, which belongs to the calling worker. It propagates exceptions of
// Region::memory, with nothing updated and nothing held. A strategy that runs the kernel on ranges of the
// memory updates the slots of an optimiser with them; they need the same protection as the elements.
// `why_not` returns the reason why the strategy cannot run on this machine; nullopt if it can. If that
// depends on the parameters, there is an overload of `why_not` that takes them.
//
// A strategy whose `snapshots` are not `none` has `read(region, reading, stats)`. It copies the whole
// variable, and the copy has that consistency with regard to updates under the same object: with
// Consistency::tensor it is the variable as it was between two updates. Any number of threads may read while
// others update. `read` counts only waiting.
//
// A strategy that keeps the variable outside the region's memory has `settle(region)`, which brings the
// memory up to date for readers outside the strategy, and `restart(region)` for after an assignment of the
// memory, which then holds the variable. Both must be called while no thread updates. If it keeps a copy for
// each worker, it has `view(region, stats)`, which returns the worker's, so that a worker need not copy what
// it reads.
//
// All accesses to the variable's elements go through the kernels of the update and of the read, or through
// find_copy, so that a test can replace them.
//
// A strategy that must be notified of reads has `note_read(region)`: a thread outside the strategy is about
// to read the whole variable; and `note_rows(region, inputs, width)`: only the rows of these inputs.
template <class S>
concept Strategy =
    (std::default_initializable<S> || std::constructible_from<S, const Parameters&>) &&
    requires(S& s, ArrayRegion<float>& region, const GradientDescent<float>& update, ThreadStats& stats) {
      { S::info } -> std::convertible_to<StrategyInfo>;
      { S::why_not() } -> std::same_as<std::optional<std::string>>;
      s.apply(region, update, stats);
    };

}  // namespace tmflow
