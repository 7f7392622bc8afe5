// What a strategy is: the one interface behind which every way of keeping updates apart stands.
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

// How much of concurrent work stays consistent.
enum class Promise {
  none,     // an update, or a part of one, may be lost
  element,  // every element by itself
  block,    // a block of elements together
  tensor,   // all elements of a variable together
  step,     // all variables of a step together
};

constexpr std::string_view name_of(Promise promise) {
  constexpr std::string_view names[] = {"none", "element", "block", "tensor", "step"};
  return names[static_cast<int>(promise)];
}

// What a strategy guarantees of updates of a whole variable if it makes them `part` elements at a time; 0:
// all at once.
constexpr Promise promise_in_parts(std::int64_t part, std::size_t elements) {
  return 0 < part && static_cast<std::size_t>(part) < elements ? Promise::block : Promise::tensor;
}

struct StrategyInfo {
  std::string_view name;     // also the name of its file
  std::string_view summary;  // one line
  Promise updates;
  Promise reads;                      // as seen by readers that take no part in the strategy
  Promise snapshots = Promise::none;  // of its own `read`; none: it has no `read`
  std::span<const Parameter> parameters = {};
  bool runs_kernel = true;   // so it has the kernel's parameters too; false where it has a loop of its own
  bool own_process = false;  // it can only be made in a process that was started for it
  // Its updates fetch the memory under the variable's mutex and write it under that only.
  bool fetches_under_mutex = false;
  // Whether the parameters fit each other; throws std::invalid_argument if they do not.
  void (*check)(const Parameters&) = nullptr;
  // What it guarantees of updates of a variable of so many elements, where that depends on the parameters;
  // elsewhere it is `updates`. src/tmflow/benchmark/subjects.py has the same rule, and a test compares the
  // two.
  Promise (*updates_over)(const Parameters&, std::size_t elements) = nullptr;
};

// A strategy object belongs to one variable, and its members are what the strategy needs per variable; a
// strategy that needs nothing is an empty struct with a static `apply`. A strategy that has parameters is
// made from their values, another one by default.
//
// `apply` may be called by any number of threads at once. It updates every element of the region's memory
// once and counts in `stats`, which is the calling worker's own. It passes on what Region::memory throws,
// with nothing updated and nothing held. `why_not` says why the strategy cannot run on this machine; nullopt
// if it can. Where that depends on the parameters, there is another `why_not` that takes them.
//
// A strategy whose `snapshots` promises something has `read(region, reading, stats)`: it copies the whole
// variable, and what it copied is what its promise says, of updates under the same object: with
// Promise::tensor the variable as it was between two updates. Any number of threads may read while others
// update. Counts nothing but waiting.
//
// A strategy that keeps the variable elsewhere than in the region's memory has `settle(region)`: the memory
// is brought up to date, for whoever takes no part; and `restart(region)`: the memory was assigned, and the
// variable is what it holds now. Both are called while nobody updates.
//
// All that touches the variable's elements goes through the kernels of the update and of the reading, or
// find_copy, so that a test can put its own in their place.
//
// A strategy that must learn of reads has `note_read(region)`: somebody who takes no part in the strategy is
// about to read the whole variable.
template <class S>
concept Strategy =
    (std::default_initializable<S> || std::constructible_from<S, const Parameters&>) &&
    requires(S& s, ArrayRegion<float>& region, const GradientDescent<float>& update, ThreadStats& stats) {
      { S::info } -> std::convertible_to<StrategyInfo>;
      { S::why_not() } -> std::same_as<std::optional<std::string>>;
      s.apply(region, update, stats);
    };

}  // namespace tmflow
