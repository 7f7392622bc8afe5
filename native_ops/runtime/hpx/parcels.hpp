// Frames between processes as parcels of HPX: the only place that knows HPX's network.
//
// The processes are not localities of one HPX application. Each runs an application of its own, and hands
// parcels for the first locality of another one to its parcelport, as HPX does itself while it starts. So no
// process depends on a root whose end would be the end of all, nobody has to register anywhere, and a process
// that starts again is a new one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "../transport/frame.hpp"
#include "../transport/socket.hpp"

namespace tmflow::runtime::parcels {

// Where the HPX of a process receives.
struct Endpoint {
  std::string address;  // of IP
  std::uint16_t port = 0;

  auto operator<=>(const Endpoint&) const = default;
};

// Names a receiver. It is random, and only who has been told it can send there.
struct Key {
  std::uint64_t high = 0, low = 0;

  auto operator<=>(const Key&) const = default;
};

Key new_key();

// A frame as it arrives. The body is HPX's memory, which `owner` of the message keeps.
using tcp::Frame;

class Receiver {
 public:
  // In any order, on threads of HPX's network, which it must not block. The sender has numbered the frames.
  virtual void receive(std::uint64_t number, Frame frame) = 0;

  // HPX could not send to the endpoint, so frames are missing.
  virtual void lose(const std::string& why) = 0;

 protected:
  ~Receiver() = default;
};

// The receiver gets the frames for this key until `close`, which waits while the receiver is called.
void open(const Key& key, Receiver& receiver);
void close(const Key& key);

// Names this process: a process that starts again may be given the port of an earlier one.
Key process();

// From now on the receiver hears of the loss of frames to the endpoint. The process there has just been heard
// from, by other means.
void watch(const Key& key, const Endpoint& other, const Key& process);

// Called when a frame has been sent or dropped, on any thread. It must not block.
class Sender {
 public:
  virtual void sent(std::size_t bytes) = 0;

 protected:
  ~Sender() = default;
};

// Sends a frame. It does not wait, except for a connection to the process.
void send(const Endpoint& to, const Key& key, std::uint64_t number, Frame frame,
          const std::shared_ptr<Sender>& sender);

// Drops the frames for this key that HPX does not have yet.
void drop(const Endpoint& to, const Key& key);

// Starts the HPX of this process with a network at an address of this machine, unless it has been started,
// and returns where it receives. Throws a Failure if it cannot, or receives where the address does not lead.
Endpoint start(const std::string& address);

bool is_loopback(const std::string& ip);

// The version of HPX, which both ends must have.
std::string version();

}  // namespace tmflow::runtime::parcels
