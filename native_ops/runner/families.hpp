// Why a transaction aborted: the family of the raw status. src/tmflow/spec/abort_codes.py explains the bits
// and the order in which they decide.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tmflow::runner {

// The family of a raw status of this mechanism: rtm, power, stm, itm or tle. Throws std::invalid_argument for
// any other mechanism.
std::string_view family(std::string_view mechanism, std::uint64_t status);

// The whole raw status as text: hexadecimal, at least 8 digits.
std::string raw_code(std::uint64_t status);

}  // namespace tmflow::runner
