// A strategy object behind one type, for callers that know its name only at run time.
#pragma once

#include <cstddef>
#include <span>

#include "tmflow/core/foreign_region.hpp"
#include "tmflow/core/region.hpp"
#include "tmflow/core/strategy.hpp"

namespace tmflow {

// The virtual interface of a strategy that works on regions of type R.
template <Region R>
class AnyStrategy {
 public:
  virtual ~AnyStrategy() = default;
  virtual void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) = 0;
  // Throws std::invalid_argument if the strategy has no consistent read.
  virtual void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) = 0;
  // The worker's own copy of the variable, with the values that `read` would copy; empty if the strategy
  // keeps none. Only calls of this worker, `settle` and `restart` change it, and it is valid until the next
  // `settle` or `restart`.
  virtual std::span<const typename R::Value> view(R& region, ThreadStats& stats) = 0;
  // Brings the region's memory up to date: afterwards it holds the variable after the last update. Must be
  // called while no thread updates.
  virtual void settle(R& region) = 0;
  // The region's memory was assigned and now holds the variable. Must be called while no thread updates.
  virtual void restart(R& region) = 0;
  // A thread reads the whole variable outside the strategy; most strategies ignore this.
  virtual void note_read(R& region) = 0;
  // The same for the rows of these inputs; the variable has rows of `width` elements.
  virtual void note_rows(R& region, std::span<const NonZero<typename R::Value>> inputs,
                         std::size_t width) = 0;
};

}  // namespace tmflow
