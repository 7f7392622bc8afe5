// A clock for `adaptive` that advances only when it is read.
#pragma once

#include <atomic>
#include <chrono>

#include "tmflow/strategies/adaptive.hpp"

namespace tmflow::adaptive {

// Consecutive readings are a millisecond apart, so each look of adaptive ends a window. Relaxed, so that the
// clock orders nothing that the strategy must order.
struct SteppedClock {
  using duration = std::chrono::milliseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SteppedClock>;
  static constexpr bool is_steady = true;

  static time_point now() noexcept {
    return time_point(duration(looks.fetch_add(1, std::memory_order_relaxed) + 1));
  }

  static inline std::atomic<int> looks{1};
};

using Stepped = BasicAdaptive<SteppedClock>;

}  // namespace tmflow::adaptive
