// The update as a transaction, compiled once for each optimisation that CMakeLists.txt names, with -fgnu-tm.
// As with the kernels (kernel_build.cc), nothing is shared between the builds.
#include "itm_build.hpp"

namespace tmflow::itm {
namespace {

// A separate function: no value that a restart restores may be in a register of `update`, in whose frame a
// transaction begins, as setjmp would.
template <class T>
[[gnu::transaction_safe, gnu::noinline]] void loop(T* variable, const T* delta, T alpha,
                                                   std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

// Separate for the same reason. The numbers of the rows are read in the transaction, as the compiler would
// instrument any loop over them.
template <class T>
[[gnu::transaction_safe, gnu::noinline]] void loop_over_rows(T* variable, const std::int64_t* rows,
                                                             const T* values, std::size_t n,
                                                             std::size_t width, T alpha) noexcept {
  for (std::size_t row = 0; row < n; ++row) {
    loop(variable + static_cast<std::size_t>(rows[row]) * width, values + row * width, alpha, width);
  }
}

template <class T>
void update(T* variable, const RowPointers<T>& gradient, T alpha, Execution& execution) noexcept {
  const RowPointers<T> given = gradient;  // reads of the original would be instrumented
  __transaction_atomic {
    begins(execution);
    loop_over_rows(variable, given.rows, given.values, given.n, given.width, alpha);
    ends(execution);
  }
}

}  // namespace

const Build TMFLOW_ITM_BUILD{.of_float = update<float>, .of_double = update<double>};

}  // namespace tmflow::itm
