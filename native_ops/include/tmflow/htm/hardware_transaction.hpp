// Whether the caller is inside a hardware transaction, no matter which code began it.
#pragma once

namespace tmflow {

// Only Intel RTM; false if the processor has none.
bool in_hardware_transaction() noexcept;

}  // namespace tmflow
