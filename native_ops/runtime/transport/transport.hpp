// How the tasks of a cluster call each other: the interface that every transport has. It knows nothing of
// TensorFlow.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace tmflow::runtime {

// How a call ended: a code of absl::Status, of which 0 is success, and a sentence for the others.
struct Outcome {
  int code = 0;
  std::string text;
};

inline constexpr int kCancelled = 1, kInvalid = 3, kDeadlineExceeded = 4, kUnauthenticated = 16,
                     kUnavailable = 14;

// A header, and a body that is sent from where it is, without a copy: `owner` keeps its memory until it is
// sent.
struct Message {
  std::string header;
  std::string_view body;
  std::shared_ptr<const void> owner;
};

// Where the body of an answer goes, given its header and its size: memory of this many bytes that stays valid
// until the call is done, or null, which ends the call with kInvalid.
using Place = std::function<char*(const std::string& header, std::size_t size)>;

// Called once for each call, from any thread, with the header of the answer. It must not block.
// Nothing is written to the place of the body any more when it is called.
using Done = std::function<void(Outcome, std::string header)>;

// Another task, as the task that calls it sees it. Any thread may call it.
class Peer {
 public:
  struct Options {
    std::chrono::milliseconds timeout{0};  // none if 0; kDeadlineExceeded after it
    bool wait = false;  // while nobody listens there: wait for it, instead of kUnavailable at once
  };

  virtual ~Peer() = default;

  // Calls a method of the other task and returns the number of the call, for `cancel`. A request has no body.
  // A connection that was lost is opened again by the next call; the calls that it carried end with
  // kUnavailable.
  virtual std::uint64_t call(std::uint8_t method, std::string request, Place place, Options options,
                             Done done) = 0;

  // Ends a call with kCancelled, unless it is done; the other task is told.
  virtual void cancel(std::uint64_t call) = 0;
};

// A call that this task serves. It is answered once; a call that is dropped without an answer ends with
// kCancelled.
class Served {
 public:
  virtual ~Served() = default;
  virtual std::uint8_t method() const = 0;
  virtual std::string& request() = 0;
  virtual void answer(Outcome outcome, Message message) = 0;

  // Runs `then` when the caller cancels the call or is lost, at once if that has happened; never after the
  // answer.
  virtual void on_cancel(std::function<void()> then) = 0;
};

// What a task offers to others. `serve` is called from the thread that reads from the caller, so it must not
// block.
class Service {
 public:
  virtual ~Service() = default;
  virtual void serve(std::shared_ptr<Served> call) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Serves calls at "host:port" (port 0: any free port) until `stop`. Returns the port.
  // Throws std::runtime_error with a sentence if it cannot.
  virtual int listen(const std::string& address, Service& service) = 0;

  // The task at "host:port". Nothing is sent before the first call.
  virtual std::shared_ptr<Peer> connect(const std::string& address) = 0;

  // Closes all connections, ends all calls, and waits for all threads of the transport: nothing is called
  // afterwards.
  virtual void stop() = 0;
};

}  // namespace tmflow::runtime
