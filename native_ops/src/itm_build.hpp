// GCC's transactions of one build: itm_build.cc compiled with one optimisation.
#pragma once

#include "tmflow/itm/transaction.hpp"

namespace tmflow::itm {

struct Build {
  Update<float> of_float;
  Update<double> of_double;
};

extern const Build build_O0, build_O3;

// The body of a transaction begins, or has reached its end. A restart does not undo these records, because
// the compiler does not instrument pure functions. (An abort of a hardware transaction does undo them.)
[[gnu::transaction_pure]] void begins(Execution& execution) noexcept;
[[gnu::transaction_pure]] void ends(Execution& execution) noexcept;

}  // namespace tmflow::itm
