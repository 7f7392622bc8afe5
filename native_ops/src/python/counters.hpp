// The counts of a worker for Python, for the benchmark's arrays and for a trial.
#pragma once

#include <nanobind/nanobind.h>

#include "tmflow/measure/counters.hpp"

namespace tmflow::python {

inline nanobind::dict counters_of(int worker, const ThreadStats& stats) {
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
  return row;
}

}  // namespace tmflow::python
