// The benchmark's loop under absl::Mutex, which is TensorFlow's own mutex.
#pragma once

#include "tmflow/measure/audit.hpp"

namespace tmflow::python {

// Throws std::invalid_argument in a build without Abseil.
AuditReport audit_absl_loop(const AuditPlan& plan);

}  // namespace tmflow::python
