// glibc's own elision of pthread mutexes: all of a process, if its environment asked for it at the start.
#pragma once

#include <optional>
#include <string>

namespace tmflow::tle {

// Why glibc cannot elide on this machine, however the process is started.
std::optional<std::string> why_not();

// Whether glibc takes this process's mutexes by elision, read back from a new one.
bool mutexes_are_elided();

}  // namespace tmflow::tle
