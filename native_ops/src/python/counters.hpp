// The counts of a worker for Python, for an array and for a trial.
#pragma once

#include <nanobind/nanobind.h>

#include "tmflow/measure/counters.hpp"

namespace tmflow::python {

// The reads are None unless it is known which of them were torn (`knows_torn`).
inline nanobind::dict counters_of(int worker, const ThreadStats& stats, bool knows_torn) {
  namespace nb = nanobind;
  nb::dict aborts;
  for (const auto& [status, count] : stats.aborts()) aborts[nb::int_(status)] = count;
  nb::dict row;
  row["worker"] = worker;
  row["updates"] = stats.updates();
  const auto tried = known_attempts(stats);
  row["attempts"] = tried ? nb::object(nb::int_(*tried)) : nb::none();
  row["commits"] = stats.commits();
  row["fallbacks"] = stats.fallbacks();
  row["aborts"] = aborts;
  row["waited_ns"] = stats.waited_ns();
  row["held_ns"] = stats.held_ns();
  row["reads"] = knows_torn ? nb::object(nb::int_(stats.reads())) : nb::none();
  row["torn"] = knows_torn ? nb::object(nb::int_(stats.torn())) : nb::none();
  return row;
}

}  // namespace tmflow::python
