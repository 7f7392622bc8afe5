// Why a transaction aborted.
#pragma once

#include <cstdint>

namespace tmflow::stm {

// The number is the raw status that ThreadStats counts. src/tmflow/spec/abort_codes.py has the same table, so
// numbers are never reused.
enum class Cause : std::uint8_t {
  none = 0,
  requested = 1,       // the body requested it
  exception = 2,       // an exception left the body
  read_locked = 3,     // another transaction held the lock: at a read
  write_locked = 4,    // ... at a write
  commit_locked = 5,   // ... at the commit
  read_invalid = 6,    // a stripe is newer than the snapshot, which could not be extended: at a read
  write_invalid = 7,   // ... at a write
  commit_invalid = 8,  // something that was read had changed by the commit
  killed = 9,          // killed by another transaction
};

}  // namespace tmflow::stm
