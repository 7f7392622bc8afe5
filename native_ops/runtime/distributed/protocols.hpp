// The protocols of servers and sessions: TensorFlow finds them by `protocol=` and by the beginning of a
// target.
#pragma once

#include <string>

namespace tmflow::runtime {

// Their names, separated by commas.
std::string protocols();

// Makes the transports known to TensorFlow, once for a process.
void register_protocols();

}  // namespace tmflow::runtime
