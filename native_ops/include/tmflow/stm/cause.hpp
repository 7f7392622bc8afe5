// Why a transaction aborted.
#pragma once

#include <cstdint>

namespace tmflow::stm {

// The number is the raw status that ThreadStats counts; src/tmflow/spec/abort_codes.py has the same table, so
// numbers are never given anew.
enum class Cause : std::uint8_t {
  none = 0,
  requested = 1,       // the body said so
  exception = 2,       // one left the body
  read_locked = 3,     // another transaction had locked what was to be read
  write_locked = 4,    // ... or written
  commit_locked = 5,   // ... or written, found out at the commit
  read_invalid = 6,    // what was to be read is newer than the snapshot, and that could not be extended
  write_invalid = 7,   // ... or written
  commit_invalid = 8,  // what was read had changed by the commit
  killed = 9,          // another transaction insisted
};

}  // namespace tmflow::stm
