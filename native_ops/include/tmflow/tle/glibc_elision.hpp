// glibc's own elision of pthread mutexes, which applies to the whole process if its environment requested it
// at the start.
#pragma once

#include <optional>
#include <string>

namespace tmflow::tle {

// The reason why glibc cannot elide on this machine, however the process is started.
std::optional<std::string> why_not();

// Whether glibc elides this process's mutexes, read back from a new one.
bool mutexes_are_elided();

}  // namespace tmflow::tle
