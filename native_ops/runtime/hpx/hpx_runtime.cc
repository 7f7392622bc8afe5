#include "hpx_runtime.hpp"

#include <cstdlib>
#include <hpx/hpx_start.hpp>
#include <hpx/runtime_local/runtime_local_fwd.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../schedulers/pool_threads.hpp"

namespace tmflow::runtime {
namespace {

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What HPX must not do in a process that belongs to somebody else: read its command line, handle its signals,
// bind its threads to processors that TensorFlow's threads use, or spin while it has nothing to do. Idle
// threads that spin make TensorFlow's threads twice as slow on two processors.
std::vector<std::string> settings() {
  std::vector<std::string> settings = {"hpx.os_threads!=" + std::to_string(pool_threads()),
                                       "hpx.commandline.allow_unknown!=1",
                                       "hpx.commandline.aliasing!=0",
                                       "hpx.ignore_batch_env!=1",
                                       "hpx.handle_signals!=0",
                                       "hpx.diagnostics_on_terminate!=0",
                                       "hpx.attach_debugger!=none",
                                       "hpx.bind!=none",
                                       "hpx.max_idle_loop_count!=10",
                                       "hpx.max_idle_backoff_time!=1"};
  std::istringstream given(from_environment("TMFLOW_HPX_SETTINGS"));
  for (std::string setting; std::getline(given, setting, ';');) settings.push_back(setting);
  return settings;
}

hpx::threads::thread_stacksize stack_of_tasks() {
  const std::string name = from_environment("TMFLOW_HPX_STACK");
  if (name.empty() || name == "nostack") return hpx::threads::thread_stacksize::nostack;
  if (name == "small") return hpx::threads::thread_stacksize::small_;
  if (name == "medium") return hpx::threads::thread_stacksize::medium;
  if (name == "large") return hpx::threads::thread_stacksize::large;
  if (name == "huge") return hpx::threads::thread_stacksize::huge;
  throw std::runtime_error("TMFLOW_HPX_STACK is '" + name + "'; valid: nostack, small, medium, large, huge");
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
  task_executor();  // throws if the stack is invalid
  if (!hpx::start(nullptr, 1, arguments, parameters)) throw std::runtime_error("HPX did not start");
  return true;
}

}  // namespace

void start_hpx() { [[maybe_unused]] static const bool is_started = start(); }

hpx::execution::parallel_executor task_executor() {
  static const hpx::threads::thread_stacksize stack = stack_of_tasks();
  return hpx::execution::parallel_executor(hpx::threads::thread_priority::normal, stack);
}

}  // namespace tmflow::runtime
