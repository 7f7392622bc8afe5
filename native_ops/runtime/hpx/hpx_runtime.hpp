// The HPX runtime of this process: HPX permits one. Nothing here is of TensorFlow.
#pragma once

#include <cstdint>
#include <hpx/execution.hpp>
#include <string>

namespace tmflow::runtime {

// Starts HPX, unless it has been started: without a network, or as `start_hpx_network` if
// $TMFLOW_HPX_ADDRESS has an IP address. Its threads, one for each processor that the process may use or as
// many as $TMFLOW_POOL_THREADS says, sleep when there is nothing to do.
// $TMFLOW_HPX_SETTINGS has other settings of HPX, separated by semicolons ("hpx.max_idle_loop_count!=1000").
// Throws std::runtime_error with a sentence if HPX cannot start, as when the process has an HPX of another
// library.
void start_hpx();

// Where HPX receives what other processes send.
struct HpxAddress {
  std::string ip;
  std::uint16_t port = 0;
};

// Starts HPX so that it receives at a free port of this IP address. Returns where it receives, which is at
// another address if it has been started there. Throws also if it has been started without a network.
HpxAddress start_hpx_network(const std::string& ip);

// Where HPX runs the nodes of a graph. A task runs on the stack of the thread of the operating system that
// HPX chose for it, so it cannot be suspended: a kernel that blocks holds its thread. With a stack for each
// task, as HPX has by default, small tasks take longer (make speed-hpx measures it), and kernels may need
// more than HPX's small stack of 64 KB. $TMFLOW_HPX_STACK gives tasks a stack all the same: small, medium,
// large or huge.
hpx::execution::parallel_executor task_executor();

}  // namespace tmflow::runtime
