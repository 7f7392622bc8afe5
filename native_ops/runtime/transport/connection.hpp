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
  explicit Connection(Socket socket) : socket_(std::move(socket)) {}
  ~Connection() { end(); }

  const Socket& socket() const { return socket_; }

  // Sends the frame after those before it, or drops it if the connection has ended. It never blocks: what the
  // socket does not take at once is sent by a thread. Otherwise two tasks that both send much would wait for
  // each other.
  void send(Frame frame);

  // Stops both directions: who reads or sends is woken. Any thread may call it.
  void close();

  // The rest is called by the thread that reads. What reads throws a Failure when the connection has ended.

  // Waits while too many bytes wait to be sent.
  void wait_for_room();

  Head read_head();
  std::string read_string(std::size_t size);

  // Reads a body until it is complete or `is_interrupted`, and returns how many bytes are missing.
  std::size_t read_body(char* to, std::size_t size, const std::atomic<bool>& is_interrupted);

  void skip(std::size_t size);

  // Closes the socket. Nothing is sent or kept afterwards.
  void end();

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

}  // namespace tmflow::runtime::tcp
