// For processors on which no code outside the provider queries transactions.
#include "tmflow/htm/hardware_transaction.hpp"

namespace tmflow {

bool in_hardware_transaction() noexcept { return false; }

}  // namespace tmflow
