// A strategy object behind one type, for callers that know its name only when they run.
#pragma once

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
  // Throws std::invalid_argument where the strategy promises nothing of reads by way of it.
  virtual void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) = 0;
  // The region's memory holds the variable as the last update left it. Called while nobody updates.
  virtual void settle(R& region) = 0;
  // The region's memory was assigned, and the variable is what it holds now. Called while nobody updates.
  virtual void restart(R& region) = 0;
  // Somebody reads the whole variable who takes no part in the strategy; most strategies need not know.
  virtual void note_read(R& region) = 0;
};

}  // namespace tmflow
