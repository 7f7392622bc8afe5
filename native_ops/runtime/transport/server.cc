#include "server.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tmflow::runtime::tcp {

class TcpCall final : public Served {
 public:
  TcpCall(std::shared_ptr<Session> session, const Head& head, std::string request)
      : session_(std::move(session)),
        number_(head.call),
        method_(head.method),
        request_(std::move(request)) {}
  ~TcpCall() override { answer({kCancelled, "the call was dropped without an answer"}, {}); }

  std::uint8_t method() const override { return method_; }
  std::string& request() override { return request_; }

  void answer(Outcome outcome, Message message) override {
    // Destroyed without the lock, because they may own other calls.
    std::vector<std::function<void()>> dropped;
    {
      const std::lock_guard lock(session_->mutex_);
      if (std::exchange(is_answered_, true)) return;
      session_->calls_.erase(number_);
      dropped.swap(on_cancel_);
    }
    Head head;
    head.kind = Kind::kAnswer;
    head.code = outcome.code;
    head.call = number_;
    if (outcome.code != 0) message.body = {};
    session_->connection_->send(frame(head, std::move(outcome.text), std::move(message)));
  }

  void on_cancel(std::function<void()> then) override {
    {
      const std::lock_guard lock(session_->mutex_);
      if (is_answered_) return;
      if (!is_cancelled_) {
        on_cancel_.push_back(std::move(then));
        return;
      }
    }
    then();
  }

  // The mutex of the session is held. The result is to be called without it, because it may answer the call.
  std::vector<std::function<void()>> cancelled() {
    is_cancelled_ = true;
    return std::exchange(on_cancel_, {});
  }

 private:
  const std::shared_ptr<Session> session_;
  const std::uint64_t number_;
  const std::uint8_t method_;
  std::string request_;
  bool is_answered_ = false, is_cancelled_ = false;
  std::vector<std::function<void()>> on_cancel_;
};

void Session::start(Socket socket, const Identity& identity, Carrier& carrier, const StopSignal& stop) {
  thread_ = std::thread([this, socket = std::move(socket), &identity, &carrier, &stop]() mutable {
    pthread_setname_np(pthread_self(), "tmflow_serve");
    try {
      if (open(std::move(socket), identity, carrier, stop)) read();
    } catch (const std::exception&) {
      // The caller sees that the connection is closed.
    }
    if (connection_ != nullptr) connection_->end();
    std::vector<std::uint64_t> lost;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [number, call] : calls_) lost.push_back(number);
    }
    for (const std::uint64_t number : lost) cancel(number);
    has_ended_ = true;
  });
}

// False after `close`.
bool Session::open(Socket socket, const Identity& identity, Carrier& carrier, const StopSignal& stop) {
  Socket of_caller = std::move(socket);  // which is closed here if the caller is refused
  const Deadline deadline{Clock::now() + kPatience, stop};
  welcome(of_caller, identity, deadline);
  std::unique_ptr<Connection> connection = carrier.connect(std::move(of_caller), deadline);
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  connection_ = std::move(connection);
  return true;
}

void Session::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  if (connection_ != nullptr) connection_->close();
}

void Session::read() {
  for (;;) {
    const Head head = connection_->read_head();
    if (is_valid(head, Kind::kCancel)) {
      cancel(head.call);
    } else if (is_valid(head, Kind::kRequest)) {
      serve(head);
    } else {
      throw Failure("the caller has sent what is no call");
    }
  }
}

void Session::serve(const Head& head) {
  connection_->wait_for_room();  // a caller that does not read its answers does not fill the memory
  std::string request = connection_->read_string(head.header);
  std::shared_ptr<TcpCall> call;
  {
    const std::lock_guard lock(mutex_);
    if (calls_.contains(head.call)) throw Failure("two calls have the same number");
    call = std::make_shared<TcpCall>(shared_from_this(), head, std::move(request));
    calls_.emplace(head.call, call.get());
  }
  service_.serve(call);
}

void Session::cancel(std::uint64_t number) {
  std::vector<std::function<void()>> then;
  {
    const std::lock_guard lock(mutex_);
    if (const auto it = calls_.find(number); it != calls_.end()) then = it->second->cancelled();
  }
  for (const auto& function : then) function();
}

Server::Server(Socket listener, Service& service, const Identity& identity, std::chrono::milliseconds silence,
               Carrier& carrier, const StopSignal& stop)
    : listener_(std::move(listener)),
      service_(service),
      identity_(identity),
      silence_(silence),
      carrier_(carrier),
      stop_(stop),
      thread_([this] { run(); }) {}

void Server::run() {
  pthread_setname_np(pthread_self(), "tmflow_listen");
  for (;;) {
    pollfd polled[] = {{listener_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
    poll(polled, 2, -1);
    if (polled[1].revents != 0) break;
    if (polled[0].revents != 0) accept();
  }
  for (const auto& session : sessions_) session->close();
  for (const auto& session : sessions_) session->join();
}

void Server::accept() {
  std::erase_if(sessions_, [](const auto& session) {
    if (session->has_ended()) session->join();
    return session->has_ended();
  });
  Socket socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) {
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR) return;
    pollfd polled{stop_.get(), POLLIN, 0};
    poll(&polled, 1, 50);  // no descriptors or no memory: there may be some later
    return;
  }
  configure(socket, silence_);
  const auto session = std::make_shared<Session>(service_);
  sessions_.push_back(session);
  try {
    session->start(std::move(socket), identity_, carrier_, stop_);
  } catch (const std::system_error&) {  // there are too many threads, so this caller is refused
    sessions_.pop_back();
  }
}

}  // namespace tmflow::runtime::tcp
