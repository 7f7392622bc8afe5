// Whether the code that asks is inside a hardware transaction, whoever began it.
#pragma once

namespace tmflow {

// Intel RTM's only; false where the processor has none.
bool in_hardware_transaction() noexcept;

}  // namespace tmflow
