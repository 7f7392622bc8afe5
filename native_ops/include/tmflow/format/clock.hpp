// The time of day in the format of run files and the database, and unique names.
#pragma once

#include <string>

namespace tmflow {

// ISO 8601 in UTC to the millisecond.
std::string utc_now();

// A random UUID (version 4).
std::string new_uid();

}  // namespace tmflow
