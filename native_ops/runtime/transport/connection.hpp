// A connection after its handshake: any thread sends frames, one thread reads them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "frame.hpp"
#include "socket.hpp"

namespace tmflow::runtime::tcp {

class Connection {
 public:
  virtual ~Connection() = default;

  // Sends the frame after those before it, or drops it if the connection has ended. It never waits for the
  // other end to read. Otherwise two tasks that both send much would wait for each other.
  virtual void send(Frame frame) = 0;

  // Stops both directions: who reads or sends is woken. Any thread may call it.
  virtual void close() = 0;

  // The rest is called by the thread that reads. What reads throws a Failure when the connection has ended.

  // Waits while too many bytes wait to be sent.
  virtual void wait_for_room() = 0;

  virtual Head read_head() = 0;
  virtual std::string read_string(std::size_t size) = 0;

  // Reads a body until it is complete or `is_interrupted`, and returns how many bytes are missing.
  virtual std::size_t read_body(char* to, std::size_t size, const std::atomic<bool>& is_interrupted) = 0;

  virtual void skip(std::size_t size) = 0;

  // Closes the socket. Nothing is sent or kept afterwards.
  virtual void end() = 0;
};

// Makes the connections of a transport.
class Carrier {
 public:
  virtual ~Carrier() = default;

  // Called before the first caller is accepted. Throws if callers could not be served.
  virtual void prepare(const Socket& listener) = 0;

  // A connection over a socket whose ends have greeted each other. Throws a Failure.
  virtual std::unique_ptr<Connection> connect(Socket socket, const Deadline& deadline) = 0;
};

inline constexpr std::size_t kMostQueued = 64 << 20;  // bytes that wait to be sent

// The frames follow each other over the socket.
class StreamConnection final : public Connection {
 public:
  explicit StreamConnection(Socket socket) : socket_(std::move(socket)) {}
  ~StreamConnection() override { end(); }

  void send(Frame frame) override;  // what the socket does not take at once is sent by a thread
  void close() override;
  void wait_for_room() override;
  Head read_head() override;
  std::string read_string(std::size_t size) override;
  std::size_t read_body(char* to, std::size_t size, const std::atomic<bool>& is_interrupted) override;
  void skip(std::size_t size) override;
  void end() override;

 private:
  void fail(const std::string& why);
  void write();
  std::size_t receive(char* to, std::size_t size, int flags);
  std::size_t take_buffered(char* to, std::size_t size);
  void fill();
  void read(char* to, std::size_t size);

  Socket socket_;  // open until `end`, which first waits for the thread that sends

  std::mutex mutex_;  // guards what follows; no other lock is taken while it is held
  std::condition_variable work_, room_;
  std::deque<Frame> queue_;  // the thread sends the first without the lock: others only append
  std::size_t queued_ = 0;   // bytes
  bool is_closed_ = false;
  std::string why_;  // it was closed, if there was an error
  std::thread writer_;

  // Of the thread that reads.
  std::unique_ptr<char[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what is in the buffer
};

class StreamCarrier final : public Carrier {
 public:
  void prepare(const Socket&) override {}
  std::unique_ptr<Connection> connect(Socket socket, const Deadline&) override {
    return std::make_unique<StreamConnection>(std::move(socket));
  }
};

}  // namespace tmflow::runtime::tcp
