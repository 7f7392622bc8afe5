// The time of day, as run files and the database write it; and names that nobody else gives.
#pragma once

#include <string>

namespace tmflow {

// ISO 8601 in UTC to the millisecond.
std::string utc_now();

// A random UUID (version 4).
std::string new_uid();

}  // namespace tmflow
