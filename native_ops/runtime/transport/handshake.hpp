// What the two ends of a connection tell each other first.
#pragma once

#include <string>

#include "socket.hpp"

namespace tmflow::runtime::tcp {

inline constexpr std::chrono::seconds kPatience{5};  // for connecting, and then for the other's greeting

struct Identity {
  std::string greeting, secret;
};

// The caller's side: sends who it is, and throws a Failure unless the other end is of the same kind.
void greet(const Socket& socket, const Identity& identity, const Deadline& deadline);

// The other side, which tells its greeting only to who knows the secret. Throws a Failure after a refusal.
void welcome(const Socket& socket, const Identity& identity, const Deadline& deadline);

// Sends these bytes, few enough for the buffer of a new socket, and receives as many. Throws a Failure.
std::string exchange(const Socket& socket, const std::string& bytes, const Deadline& deadline);

// Throws a Failure if the greeting and the secret are too long to be accepted.
void check(const Identity& identity);

}  // namespace tmflow::runtime::tcp
