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

template <class T>
void update(T* variable, const T* delta, T alpha, std::size_t n, Execution& execution) noexcept {
  __transaction_atomic {
    begins(execution);
    loop(variable, delta, alpha, n);
    ends(execution);
  }
}

}  // namespace

const Build TMFLOW_ITM_BUILD{.of_float = update<float>, .of_double = update<double>};

}  // namespace tmflow::itm
