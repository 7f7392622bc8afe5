#include "socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <system_error>

namespace tmflow::runtime::tcp {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

// "host:port", in which the host may be an IPv6 address in brackets.
std::pair<std::string, std::string> host_and_port(const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string port = colon == std::string::npos ? "" : address.substr(colon + 1);
  std::string host = address.substr(0, colon);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  std::uint16_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  const bool is_port = error == std::errc() && end == port.data() + port.size();
  if (host.empty() || !is_port || (!in_brackets && host.find_first_of(":[]") != std::string::npos)) {
    throw Failure("an address must be host:port, or [host]:port for IPv6", kInvalid);
  }
  return {host, port};
}

Addresses resolve(const std::string& address) {
  const auto [host, port] = host_and_port(address);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* first = nullptr;
  const int error = getaddrinfo(host.c_str(), port.c_str(), &hints, &first);
  if (error != 0) {
    const std::string why = error == EAI_SYSTEM ? error_text(errno) : gai_strerror(error);
    throw Failure("the name of the host cannot be resolved: " + why);
  }
  return {first, &freeaddrinfo};
}

void set_option(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.get(), level, option, &value, sizeof value);
}

// While nobody listens at a port of this machine, a socket that connects to it may be given the same port: it
// is then connected to itself.
bool is_connected_to_itself(const Socket& socket) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &here_size);
  getpeername(socket.get(), reinterpret_cast<sockaddr*>(&there), &there_size);
  return here_size == there_size && std::memcmp(&here, &there, here_size) == 0;
}

// The socket blocks, but not while it connects.
Socket connected(const addrinfo& to, const Deadline& deadline) {
  Socket socket(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) throw Failure(error_text(errno));
  int error = connect(socket.get(), to.ai_addr, to.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) {
    wait_until_ready(socket, POLLOUT, deadline);
    socklen_t size = sizeof error;
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0 && is_connected_to_itself(socket)) error = ECONNREFUSED;
  if (error != 0) throw Failure(error_text(error));
  fcntl(socket.get(), F_SETFL, 0);
  return socket;
}

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

StopSignal::StopSignal() : event_(eventfd(0, EFD_CLOEXEC)) {
  if (!event_) throw Failure("cannot make an event: " + error_text(errno));
}

void StopSignal::set() { eventfd_write(event_.get(), 1); }

void wait_until_ready(const Socket& socket, short events, const Deadline& deadline) {
  for (;;) {
    pollfd polled[] = {{socket.get(), events, 0}, {deadline.stop.get(), POLLIN, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.time - Clock::now()).count();
    const int ready = poll(polled, 2, static_cast<int>(std::max<decltype(left)>(left, 0)));
    if (ready < 0 && errno != EINTR) throw Failure(error_text(errno));
    if (ready > 0 && polled[1].revents != 0) throw Failure("this task has stopped", kCancelled);
    if (ready > 0) return;
    if (ready == 0) throw Failure("no reaction in time");
  }
}

Socket listen_at(const std::string& address) {
  const Addresses addresses = resolve(address);
  int error = 0;
  for (const addrinfo* at = addresses.get(); at != nullptr; at = at->ai_next) {
    Socket socket(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket) {
      set_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
      const bool is_bound = bind(socket.get(), at->ai_addr, at->ai_addrlen) == 0;
      if (is_bound && listen(socket.get(), SOMAXCONN) == 0) return socket;
    }
    error = errno;
    // Only for an address that the machine does not have: a port that is in use must not go unnoticed because
    // the host has another address.
    if (error != EADDRNOTAVAIL && error != EAFNOSUPPORT) break;
  }
  throw Failure(error_text(error));
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size);
  in_port_t port = 0;  // at the same place in the addresses of both families
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::copy_n(reinterpret_cast<const char*>(&address) + offsetof(sockaddr_in, sin_port), sizeof port,
              reinterpret_cast<char*>(&port));
  return ntohs(port);
}

Socket connect_to(const std::string& address, std::chrono::nanoseconds limit, const StopSignal& stop) {
  const Addresses addresses = resolve(address);
  int number = 0;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) ++number;
  std::string why;
  for (const addrinfo* to = addresses.get(); to != nullptr; to = to->ai_next) {
    try {
      return connected(*to, {Clock::now() + limit / number, stop});
    } catch (const Failure& failure) {
      if (failure.code() == kCancelled) throw;
      why = failure.what();
    }
  }
  throw Failure(why);
}

void configure(const Socket& socket, std::chrono::milliseconds silence) {
  const int limit = static_cast<int>(silence.count());
  const int seconds = std::max(1, limit / 4000);
  set_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(socket, IPPROTO_TCP, TCP_KEEPIDLE, 2 * seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPINTVL, seconds);
  set_option(socket, IPPROTO_TCP, TCP_KEEPCNT, 2);
  set_option(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, limit);
}

}  // namespace tmflow::runtime::tcp
