// The processors that this process may use, and pinning of threads.
#pragma once

#include <vector>

namespace tmflow::train {

// Their numbers, ascending. Throws std::system_error if the system does not report them.
std::vector<int> allowed_processors();

// Pins the calling thread to a processor. Throws std::system_error if the system refuses.
void stay_on(int processor);

}  // namespace tmflow::train
