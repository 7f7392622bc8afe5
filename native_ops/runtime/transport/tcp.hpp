// Calls between tasks over TCP.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "transport.hpp"

namespace tmflow::runtime {

struct TcpOptions {
  // What both ends of a connection must have in common, such as the version of TensorFlow.
  std::string greeting;

  // Shared by all tasks; may be empty. The caller sends it as it is, so it keeps out strangers who can
  // connect, not those who can read the network or listen at the address of a task.
  std::string secret;

  // A connection is lost when the other machine has not confirmed data, or that it is alive, for so long.
  std::chrono::milliseconds silence = std::chrono::seconds(20);
};

// Calls of one task to another share a connection, whose thread calls `Done`; those that are cancelled or
// late end on the thread of the timers. A call after `stop` ends at once, on the thread that makes it.
std::unique_ptr<Transport> tcp_transport(TcpOptions options);

namespace tcp {
class Carrier;
}

// The same with other connections. The socket of each greets, and shows whether the other end is still there.
std::unique_ptr<Transport> transport_over(TcpOptions options, std::shared_ptr<tcp::Carrier> carrier);

}  // namespace tmflow::runtime
