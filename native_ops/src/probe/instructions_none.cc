// For a processor family without known transactional memory.
#include "tmflow/probe/instructions.hpp"

namespace tmflow::probe {

const Instructions* instructions() { return nullptr; }

}  // namespace tmflow::probe
