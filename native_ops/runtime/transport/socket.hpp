// Sockets: addresses, listening, connecting, and waiting with a deadline.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>

#include "transport.hpp"

namespace tmflow::runtime::tcp {

using Clock = std::chrono::steady_clock;

// Why a connection cannot be opened, or has ended.
class Failure : public std::runtime_error {
 public:
  explicit Failure(const std::string& text, int code = kUnavailable)
      : std::runtime_error(text), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

std::string error_text(int error);

class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

// Ends the waiting of all threads of a transport.
class StopSignal {
 public:
  StopSignal();
  void set();
  int get() const { return event_.get(); }  // readable once it is set

 private:
  Socket event_;
};

struct Deadline {
  Clock::time_point time;
  const StopSignal& stop;
};

// Waits until the socket is ready for these events of poll(2). Throws a Failure after the deadline or a stop.
void wait_until_ready(const Socket& socket, short events, const Deadline& deadline);

// Listens at "host:port", and only at this host's first address that the machine has. Throws a Failure.
Socket listen_at(const std::string& address);
int port_of(const Socket& socket);

// Connects to the first address of "host:port" that can be reached. Throws a Failure after a stop, or after
// the limit; the time in which the name is resolved does not count, and nothing ends it.
Socket connect_to(const std::string& address, std::chrono::nanoseconds limit, const StopSignal& stop);

// Small frames are sent at once, and a machine that is silent for so long counts as lost.
void configure(const Socket& socket, std::chrono::milliseconds silence);

}  // namespace tmflow::runtime::tcp
