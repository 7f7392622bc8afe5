#include "absl_loop.hpp"

#include <absl/synchronization/mutex.h>

#include "tmflow/measure/bench.hpp"

namespace tmflow::python {
namespace {

// Calls the kernel, whereas the other mutexes have the loop in the same function: otherwise Abseil's headers
// would be compiled once for each vector width, and their inline functions shared. The cost of the call is
// small compared with Lock and Unlock, which are calls too.
void loop_under_absl(absl::Mutex& mutex, float* variable, const float* delta, float alpha,
                     std::size_t n) noexcept {
  static const Kernel<float> kernel = find_kernel<float>();
  const absl::MutexLock held(&mutex);
  kernel(variable, delta, alpha, n);
}

}  // namespace

AuditReport audit_absl_loop(const AuditPlan& plan) {
  // Debian builds Abseil with assertions, and so with a search for deadlocks at every Lock.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  bench::MutexLoop<absl::Mutex> loop(loop_under_absl);
  return audit<float>(loop, plan);
}

}  // namespace tmflow::python
