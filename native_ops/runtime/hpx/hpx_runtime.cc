#include "hpx_runtime.hpp"

#include <hpx/hpx_start.hpp>
#include <hpx/runtime_local/runtime_local_fwd.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../schedulers/pool_threads.hpp"

namespace tmflow::runtime {
namespace {

// What HPX must not do in a process that belongs to somebody else: read its command line, handle its signals,
// bind its threads to processors that TensorFlow's threads use, or spin while it has nothing to do. Idle
// threads that spin make TensorFlow's threads twice as slow on two processors.
std::vector<std::string> settings() {
  return {"hpx.os_threads!=" + std::to_string(pool_threads()),
          "hpx.commandline.allow_unknown!=1",
          "hpx.commandline.aliasing!=0",
          "hpx.ignore_batch_env!=1",
          "hpx.handle_signals!=0",
          "hpx.diagnostics_on_terminate!=0",
          "hpx.attach_debugger!=none",
          "hpx.bind!=none",
          "hpx.max_idle_loop_count!=10",
          "hpx.max_idle_backoff_time!=1"};
}

// Returns whether it has started. It is never stopped, because steps may run while the process ends.
bool start() {
  if (hpx::get_runtime_ptr() != nullptr) {
    throw std::runtime_error("this process has an HPX runtime of another library, and HPX permits one");
  }
  static char name[] = "tmflow";
  static char* arguments[] = {name, nullptr};
  hpx::init_params parameters;
  parameters.cfg = settings();
  if (!hpx::start(nullptr, 1, arguments, parameters)) throw std::runtime_error("HPX did not start");
  return true;
}

}  // namespace

void start_hpx() { [[maybe_unused]] static const bool is_started = start(); }

}  // namespace tmflow::runtime
