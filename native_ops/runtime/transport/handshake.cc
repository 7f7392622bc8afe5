#include "handshake.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>

#include "frame.hpp"

namespace tmflow::runtime::tcp {
namespace {

struct Hello {
  int code = 0;
  Identity identity;
};

// In the time that equal secrets take, whatever the difference.
bool are_same_secrets(std::string_view ours, std::string_view theirs) {
  std::size_t difference = ours.size() ^ theirs.size();
  for (std::size_t i = 0; i < ours.size(); ++i) {
    difference |= static_cast<unsigned char>(ours[i] ^ (i < theirs.size() ? theirs[i] : 0));
  }
  return difference == 0;
}

void send_all(const Socket& socket, const std::string& bytes) {
  const auto sent = send(socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(bytes.size())) throw Failure(error_text(errno));
}

// A hello fits into the empty buffer of a new socket.
void send_hello(const Socket& socket, const Hello& hello) {
  Head head;
  head.kind = Kind::kHello;
  head.code = hello.code;
  head.text = static_cast<std::uint32_t>(hello.identity.greeting.size());
  head.header = hello.identity.secret.size();
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += hello.identity.greeting + hello.identity.secret;
  send_all(socket, bytes);
}

void receive(const Socket& socket, char* to, std::size_t size, const Deadline& deadline) {
  while (size > 0) {
    wait_until_ready(socket, POLLIN, deadline);
    const ssize_t received = recv(socket.get(), to, size, MSG_DONTWAIT);
    if (received == 0) throw Failure("it has closed the connection");
    if (received < 0 && errno != EAGAIN && errno != EINTR) throw Failure(error_text(errno));
    if (received < 0) continue;
    to += received;
    size -= static_cast<std::size_t>(received);
  }
}

Hello receive_hello(const Socket& socket, const Deadline& deadline) {
  Head head;
  receive(socket, reinterpret_cast<char*>(&head), sizeof head, deadline);
  if (!is_valid(head, Kind::kHello)) throw Failure("it is no task of this kind");
  Hello hello{head.code, {std::string(head.text, '\0'), std::string(head.header, '\0')}};
  receive(socket, hello.identity.greeting.data(), hello.identity.greeting.size(), deadline);
  receive(socket, hello.identity.secret.data(), hello.identity.secret.size(), deadline);
  return hello;
}

}  // namespace

void greet(const Socket& socket, const Identity& identity, const Deadline& deadline) {
  send_hello(socket, {0, identity});
  const auto [code, other] = receive_hello(socket, deadline);
  if (code == kUnauthenticated || (code == 0 && !are_same_secrets(identity.secret, other.secret))) {
    throw Failure("it has another secret", kUnauthenticated);
  }
  if (code != 0 || other.greeting != identity.greeting) {
    throw Failure("it is '" + other.greeting + "' and this task '" + identity.greeting + "'", kInvalid);
  }
}

void welcome(const Socket& socket, const Identity& identity, const Deadline& deadline) {
  const auto [code, other] = receive_hello(socket, deadline);
  if (code != 0 || !are_same_secrets(identity.secret, other.secret)) {
    send_hello(socket, {kUnauthenticated, {}});
    throw Failure("the caller has another secret", kUnauthenticated);
  }
  if (other.greeting != identity.greeting) {
    send_hello(socket, {kInvalid, {identity.greeting, ""}});
    throw Failure("the caller is '" + other.greeting + "'", kInvalid);
  }
  send_hello(socket, {0, identity});
}

std::string exchange(const Socket& socket, const std::string& bytes, const Deadline& deadline) {
  send_all(socket, bytes);
  std::string received(bytes.size(), '\0');
  receive(socket, received.data(), received.size(), deadline);
  return received;
}

void check(const Identity& identity) {
  if (identity.greeting.size() + identity.secret.size() > kMostHello) {
    throw Failure("greeting and secret must not exceed " + std::to_string(kMostHello) + " bytes", kInvalid);
  }
}

}  // namespace tmflow::runtime::tcp
