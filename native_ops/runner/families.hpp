// Why a transaction aborted: the family of its machine's raw status, as src/tmflow/spec/abort_codes.py has
// it, where the bits and the order in which they decide are explained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tmflow::runner {

// The family of a raw status of this mechanism: rtm, power, stm, itm or tle. Throws std::invalid_argument for
// another one.
std::string_view family(std::string_view mechanism, std::uint64_t status);

// The whole raw status as text: hexadecimal, at least 8 digits.
std::string raw_code(std::uint64_t status);

}  // namespace tmflow::runner
