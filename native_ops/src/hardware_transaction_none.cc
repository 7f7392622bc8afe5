// A processor whose transactions only their own provider asks about.
#include "tmflow/htm/hardware_transaction.hpp"

namespace tmflow {

bool in_hardware_transaction() noexcept { return false; }

}  // namespace tmflow
