#include "hpx_runtime.hpp"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <hpx/hpx_start.hpp>
#include <hpx/runtime_local/runtime_local_fwd.hpp>
#include <mutex>
#include <optional>
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
// or bind its threads to processors that TensorFlow's threads use. An idle thread looks for work every
// millisecond: by HPX's default it may sleep for up to a second, and then wakes less often.
std::vector<std::string> settings(const std::optional<HpxAddress>& network) {
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
  if (network) {
    const std::string port = std::to_string(network->port);
    settings.insert(
        settings.end(),
        {"hpx.expect_connecting_localities!=1", "hpx.parcel.address!=" + network->ip,
         "hpx.parcel.port!=" + port, "hpx.agas.address!=" + network->ip, "hpx.agas.port!=" + port,
         "hpx.parcel.bootstrap!=tcp", "hpx.parcel.message_handlers!=0", "hpx.parcel.tcp.enable!=1",
         "hpx.parcel.tcp.io_pool_size!=4", "hpx.parcel.tcp.max_message_size!=1099511627776",
         "hpx.parcel.tcp.max_outbound_message_size!=1099511627776"});
  }
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

// A port of the address that nobody else is given while this exists. HPX can listen at it nevertheless,
// because both allow that the address is used again, and only one listens.
class ReservedPort {
 public:
  explicit ReservedPort(const std::string& ip) {
    sockaddr_storage address{};
    auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
    auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address);
    socklen_t size = 0;
    if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
      v4->sin_family = AF_INET;
      size = sizeof *v4;
    } else if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
      v6->sin6_family = AF_INET6;
      size = sizeof *v6;
    } else {
      throw std::runtime_error("HPX needs an IP address to receive at, and '" + ip + "' is none");
    }
    socket_ = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int yes = 1;
    setsockopt(socket_, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      const std::string why = std::strerror(errno);
      ::close(socket_);
      throw std::runtime_error("HPX cannot receive at " + ip + ": " + why);
    }
    port_ = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
  }
  ReservedPort(const ReservedPort&) = delete;
  ReservedPort& operator=(const ReservedPort&) = delete;
  ~ReservedPort() { ::close(socket_); }

  std::uint16_t port() const { return port_; }

 private:
  int socket_ = -1;
  std::uint16_t port_ = 0;
};

// It is never stopped, because steps and calls may run while the process ends.
class Runtime {
 public:
  static Runtime& of_process() {
    static auto* const runtime = new Runtime;
    return *runtime;
  }

  void start() {
    const std::lock_guard lock(mutex_);
    if (is_started_) return;
    if (const std::string ip = from_environment("TMFLOW_HPX_ADDRESS"); ip.empty()) {
      run(std::nullopt);
    } else {
      start_network(ip);
    }
  }

  HpxAddress network(const std::string& ip) {
    const std::lock_guard lock(mutex_);
    if (!is_started_) start_network(ip);
    if (!network_) {
      throw std::runtime_error(
          "HPX runs in this process without a network, because an executor has started it: set "
          "TMFLOW_HPX_ADDRESS=" +
          ip + ", or make the server or the session first");
    }
    return *network_;
  }

 private:
  void start_network(const std::string& ip) {
    const ReservedPort reserved(ip);
    const HpxAddress at{ip, reserved.port()};
    run(at);
    network_ = at;
  }

  void run(const std::optional<HpxAddress>& network) {
    if (hpx::get_runtime_ptr() != nullptr) {
      throw std::runtime_error("this process has an HPX runtime of another library, and HPX permits one");
    }
    static char name[] = "tmflow";
    static char* arguments[] = {name, nullptr};
    hpx::init_params parameters;
    parameters.cfg = settings(network);
    task_executor();  // throws if the stack is invalid
    if (!hpx::start(nullptr, 1, arguments, parameters)) throw std::runtime_error("HPX did not start");
    is_started_ = true;
  }

  std::mutex mutex_;
  bool is_started_ = false;
  std::optional<HpxAddress> network_;
};

}  // namespace

void start_hpx() { Runtime::of_process().start(); }

HpxAddress start_hpx_network(const std::string& ip) { return Runtime::of_process().network(ip); }

hpx::execution::parallel_executor task_executor() {
  static const hpx::threads::thread_stacksize stack = stack_of_tasks();
  return hpx::execution::parallel_executor(hpx::threads::thread_priority::normal, stack);
}

}  // namespace tmflow::runtime
