// A build without Abseil.
#include <stdexcept>

#include "absl_loop.hpp"

namespace tmflow::python {

AuditReport audit_absl_loop(const AuditPlan&) {
  throw std::invalid_argument(
      "mutex_loop cannot run here: this build has no absl::Mutex (Debian: libabsl-dev)");
}

}  // namespace tmflow::python
