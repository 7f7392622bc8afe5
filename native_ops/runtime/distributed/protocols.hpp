// The protocols of servers and sessions: TensorFlow finds them by `protocol=` and by the beginning of a
// target.
#pragma once

namespace tmflow::runtime {

// Makes the transports known to TensorFlow, once for a process.
void register_protocols();

}  // namespace tmflow::runtime
