// The parts of the probe, each as JSON with the reason, `why`, for every null. The transactional parts run on
// any Transactor.
#pragma once

#include <cstddef>
#include <optional>

#include "tmflow/probe/budget.hpp"
#include "tmflow/probe/findings.hpp"
#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {

// Results that other measurements need.
struct Fits {
  std::optional<std::size_t> line_bytes, write_lines;
};

Json find_capacity(Transactor& transactor, Budget budget, Fits& fits);
Json find_conflicts(Transactor& transactor, Budget budget);
Json find_siblings(Transactor& transactor, const Fits& fits, Budget budget);
Json find_asynchronous(Transactor& transactor, const Fits& fits, bool timed, Budget budget);
Json find_costs(Budget budget);  // of this processor's own transactions

// All of the above, and whether there are transactions at all; the pointer is null if the family has none.
Json find_transactions(Transactor* transactor, bool timed, double seconds);

// The measurements without transactions.
Json find_machine(double seconds);
Json find_limits(double seconds);

}  // namespace tmflow::probe
