// The time that the probe, or a part of it, may take.
#pragma once

#include <algorithm>
#include <chrono>

#include "tmflow/probe/findings.hpp"

namespace tmflow::probe {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

class Budget {
 public:
  explicit Budget(double seconds)
      : end_(Clock::now() +
             std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}

  double left() const { return std::max(0.0, std::chrono::duration<double>(end_ - Clock::now()).count()); }
  bool over() const { return Clock::now() >= end_; }

  // Throws NotMeasured once the time is over.
  void check() const {
    if (over())
      throw NotMeasured("the time of the probe ran out before this was measured: increase --seconds");
  }

 private:
  Clock::time_point end_;
};

}  // namespace tmflow::probe
