// The calls that other tasks make to this one.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "connection.hpp"
#include "handshake.hpp"
#include "transport.hpp"

namespace tmflow::runtime::tcp {

class TcpCall;

// One caller. Calls that are not answered yet keep it, even after the transport has gone.
class Session final : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(Service& service) : service_(service) {}

  // Starts the thread that reads. What is referred to must live until it has ended, like the service.
  void start(Socket socket, const Identity& identity, Carrier& carrier, const StopSignal& stop);
  bool has_ended() const { return has_ended_; }
  void close();
  void join() { thread_.join(); }

 private:
  friend class TcpCall;

  bool open(Socket socket, const Identity& identity, Carrier& carrier, const StopSignal& stop);
  void read();
  void serve(const Head& head);
  void cancel(std::uint64_t number);

  Service& service_;
  std::unique_ptr<Connection> connection_;  // set once, before the first call
  std::atomic<bool> has_ended_{false};
  std::thread thread_;

  // Guards what follows and the state of the calls. No other lock is taken while it is held.
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, TcpCall*> calls_;  // not answered yet, so not destroyed
  bool is_closed_ = false;
};

// Accepts callers on a thread, and has one thread for each.
class Server {
 public:
  // What is referred to must live until the server has been destroyed, which waits until `stop` is set.
  Server(Socket listener, Service& service, const Identity& identity, std::chrono::milliseconds silence,
         Carrier& carrier, const StopSignal& stop);
  ~Server() { thread_.join(); }

 private:
  void run();
  void accept();

  const Socket listener_;
  Service& service_;
  const Identity& identity_;
  const std::chrono::milliseconds silence_;
  Carrier& carrier_;
  const StopSignal& stop_;
  std::vector<std::shared_ptr<Session>> sessions_;  // of the thread
  std::thread thread_;
};

}  // namespace tmflow::runtime::tcp
