// Which processors this process may use, and keeping a thread on one of them.
#pragma once

#include <vector>

namespace tmflow::train {

// Their numbers, ascending. Throws std::system_error if the system does not tell.
std::vector<int> allowed_processors();

// Keeps the calling thread on a processor. Throws std::system_error if the system refuses.
void stay_on(int processor);

}  // namespace tmflow::train
