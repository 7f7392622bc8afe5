// Tasks that call each other, for tests, and hand-written ends of connections over TCP.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/transport/frame.hpp"
#include "runtime/transport/handshake.hpp"
#include "runtime/transport/socket.hpp"
#include "runtime/transport/tcp.hpp"
#ifdef TMFLOW_TEST_HPX
#include "runtime/hpx/hpx_transport.hpp"
#endif

namespace tmflow::runtime {

using namespace std::chrono_literals;

inline constexpr auto kSoon = 60s;  // long enough under a sanitizer; a test that waits for so long has failed

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

// The transport under test.
inline std::unique_ptr<Transport> new_transport(TcpOptions options) {
#ifdef TMFLOW_TEST_HPX
  return hpx_transport(std::move(options));
#else
  return tcp_transport(std::move(options));
#endif
}

template <class T>
T get(std::future<T> future) {
  if (future.wait_for(kSoon) != std::future_status::ready) throw std::runtime_error("it has not happened");
  return future.get();
}

// A service that is a function.
class Handler final : public Service {
 public:
  using Function = std::function<void(std::shared_ptr<Served>)>;
  explicit Handler(Function function) : function_(std::move(function)) {}
  void serve(std::shared_ptr<Served> call) override { function_(std::move(call)); }

 private:
  const Function function_;
};

// Calls that are kept without an answer.
class Held {
 public:
  void add(std::shared_ptr<Served> call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    added_.notify_all();
  }
  std::vector<std::shared_ptr<Served>> take(std::size_t number) {
    std::unique_lock lock(mutex_);
    if (!added_.wait_for(lock, kSoon, [&] { return calls_.size() >= number; })) {
      throw std::runtime_error("there are too few calls");
    }
    return std::exchange(calls_, {});
  }

 private:
  std::mutex mutex_;
  std::condition_variable added_;
  std::vector<std::shared_ptr<Served>> calls_;
};

struct Answer {
  Outcome outcome;
  std::string header, body;
};

// A call whose answer is awaited.
struct Pending {
  std::uint64_t number;
  std::future<Answer> answer;
};

inline Pending start(Peer& peer, std::string request, Peer::Options options = {}, std::uint8_t method = 1) {
  auto body = std::make_shared<std::string>();
  auto promise = std::make_shared<std::promise<Answer>>();
  auto answer = promise->get_future();
  const auto place = [body](const std::string&, std::size_t size) {
    body->resize(size);
    return body->data();
  };
  const auto number =
      peer.call(method, std::move(request), place, options, [=](Outcome outcome, std::string header) {
        promise->set_value({std::move(outcome), std::move(header), std::move(*body)});
      });
  return {number, std::move(answer)};
}

inline Answer call(Peer& peer, std::string request, Peer::Options options = {}, std::uint8_t method = 1) {
  return get(start(peer, std::move(request), options, method).answer);
}

inline void echo(const std::shared_ptr<Served>& call) { call->answer({}, {call->request(), {}, {}}); }

inline std::string at(int port) { return "127.0.0.1:" + std::to_string(port); }

// Bytes that differ with the size.
inline std::string pattern(std::size_t size) {
  std::string bytes(size, '\0');
  std::uint64_t state = size;
  for (char& byte : bytes) {
    state = state * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<char>(state >> 56);
  }
  return bytes;
}

// Answers with the request as the header, and a body of as many bytes as it says.
inline void answer_with_body(const std::shared_ptr<Served>& call) {
  const auto body = std::make_shared<const std::string>(pattern(std::stoul(call->request())));
  call->answer({}, {call->request(), *body, body});
}

// A task that serves at a port of loopback.
struct Task {
  explicit Task(Handler::Function function, int at_port = 0, TcpOptions options = {"test", "secret"})
      : service(std::move(function)),
        transport(new_transport(options)),
        port(transport->listen(at(at_port), service)) {}

  Handler service;
  std::unique_ptr<Transport> transport;
  int port;
};

// One end of a connection, which sends whatever a test wants.
class RawEnd {
 public:
  explicit RawEnd(tcp::Socket socket) : socket_(std::move(socket)) { tcp::configure(socket_, 20s); }

  static RawEnd connected(int port) { return RawEnd(tcp::connect_to(at(port), kSoon, soon().stop)); }
  static RawEnd greeted(int port) {
    RawEnd end = connected(port);
    tcp::greet(end.socket_, identity(), soon());
    return end;
  }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;  // the other end has refused the rest
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
  }
  void send_frame(tcp::Head head, const std::string& header = {}, const std::string& body = {}) {
    send(bytes(head, header, body));
  }

  // Up to so many bytes: fewer if the other end closes the connection before.
  std::string receive(std::size_t size) {
    std::string received(size, '\0');
    std::size_t done = 0;
    while (done < size) {
      tcp::wait_until_ready(socket_, POLLIN, soon());
      const ssize_t got = recv(socket_.get(), received.data() + done, size - done, 0);
      if (got <= 0) break;
      done += static_cast<std::size_t>(got);
    }
    received.resize(done);
    return received;
  }
  tcp::Head receive_head() {
    tcp::Head head;
    const std::string received = receive(sizeof head);
    if (received.size() < sizeof head) throw std::runtime_error("the connection was closed");
    std::memcpy(&head, received.data(), sizeof head);
    return head;
  }
  void close_sending() { shutdown(socket_.get(), SHUT_WR); }
  bool is_closed() { return receive(1).empty(); }

  const tcp::Socket& socket() const { return socket_; }

  static tcp::Head head(tcp::Kind kind, std::uint64_t call) {
    tcp::Head head;
    head.kind = kind;
    head.call = call;
    return head;
  }
  static std::string bytes(tcp::Head head, const std::string& header = {}, const std::string& body = {}) {
    head.header += header.size();  // on top of what a test claims
    head.body += body.size();
    return std::string(reinterpret_cast<const char*>(&head), sizeof head) + header + body;
  }
  static tcp::Identity identity() { return {"protocol 1; test", "secret"}; }
  static tcp::Deadline soon() {
    static const tcp::StopSignal never;
    return {tcp::Clock::now() + kSoon, never};
  }

 private:
  tcp::Socket socket_;
};

// A listener that accepts by hand.
class RawTask {
 public:
  RawEnd accept() {
    tcp::wait_until_ready(listener_, POLLIN, RawEnd::soon());
    return RawEnd(tcp::Socket(::accept(listener_.get(), nullptr, nullptr)));
  }
  RawEnd welcome() {
    RawEnd end = accept();
    tcp::welcome(end.socket(), RawEnd::identity(), RawEnd::soon());
    return end;
  }
  int port() const { return tcp::port_of(listener_); }

 private:
  const tcp::Socket listener_ = tcp::listen_at("127.0.0.1:0");
};

}  // namespace tmflow::runtime
