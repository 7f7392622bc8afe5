// Calls between tasks as actions of HPX.
//
// A caller greets a task over a socket, as with TCP: so strangers are refused, and both see at once when the
// other process ends, neither of which HPX has. The two tell each other where their HPX receives, and then
// requests, answers and cancellations are parcels of HPX; nothing else goes over the socket.
//
// What it promises less than TCP:
// - HPX's port trusts whoever can connect to it. The secret keeps strangers from calling, but garbage that
// they
//   send there may end the process.
// - HPX keeps the memory of the body that it is sending until it has sent it, also after `stop`; a body is
// copied
//   once where it arrives.
// - The HPX runtime, its threads and its port stay until the process ends.
// - If a host vanishes, HPX may try for minutes to reach it, on one of its four network threads. Calls to it
// end
//   in time, but those to others whose connections have that thread may wait.
#pragma once

#include <memory>

#include "../transport/tcp.hpp"

namespace tmflow::runtime {

std::unique_ptr<Transport> hpx_transport(TcpOptions options);

}  // namespace tmflow::runtime
