// A processor family without transactional memory that we know.
#include "tmflow/probe/instructions.hpp"

namespace tmflow::probe {

const Instructions* instructions() { return nullptr; }

}  // namespace tmflow::probe
