#include "peer.hpp"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace tmflow::runtime::tcp {
namespace {

using namespace std::chrono_literals;

constexpr auto kRetry = 50ms;  // between attempts to connect, for calls that wait
constexpr const char* kStopped = "this task has stopped";
constexpr std::chrono::milliseconds kLongest = std::chrono::years(1);  // a sum with it does not overflow

}  // namespace

TcpPeer::TcpPeer(std::string address, Identity identity, std::chrono::milliseconds silence,
                 std::shared_ptr<Carrier> carrier, std::shared_ptr<Timers> timers, const StopSignal& stop)
    : address_(std::move(address)),
      identity_(std::move(identity)),
      silence_(silence),
      carrier_(std::move(carrier)),
      timers_(std::move(timers)),
      stop_(stop),
      thread_([this] { run(); }) {}

std::uint64_t TcpPeer::call(std::uint8_t method, std::string request, Place place, Options options,
                            Done done) {
  std::unique_lock lock(mutex_);
  const std::uint64_t number = ++last_;
  if (is_stopped_) {
    lock.unlock();
    done({kCancelled, kStopped}, {});
    return number;
  }
  Call& call = calls_[number];
  call = {method, std::move(request), std::move(place), std::move(done), options.wait, {}, {}};
  if (options.timeout > 0ms) {
    call.timer = timers_->add(Clock::now() + std::min(options.timeout, kLongest), [this, number, options] {
      interrupt(number, {kDeadlineExceeded, address_ + " has not answered within " +
                                                std::to_string(options.timeout.count()) + " ms"});
    });
  }
  // With the lock: the other task must see a call before its cancellation.
  if (connection_ != nullptr) {
    send_request(number, call);
  } else {
    change_.notify_one();
  }
  return number;
}

void TcpPeer::cancel(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  if (!calls_.contains(number)) return;
  timers_->add(Clock::now(), [this, number] {
    interrupt(number, {kCancelled, "the call to " + address_ + " was cancelled"});
  });
}

// Ends a call before its answer. On the thread of the timers.
void TcpPeer::interrupt(std::uint64_t number, Outcome outcome) {
  Done done;
  Place place;  // destroyed without the lock, like `done`, because they may own what calls and cancels
  {
    const std::lock_guard lock(mutex_);
    const auto it = calls_.find(number);
    if (it == calls_.end() || !it->second.done) return;
    Call& call = it->second;
    if (connection_ == nullptr && !failure_.empty()) outcome.text += ": " + failure_;
    if (number == arriving_) {  // its place may be written to now, so the thread that reads ends it
      call.interruption = std::move(outcome);
      is_interrupted_ = true;
      return;
    }
    forget_timer(call);
    done = std::exchange(call.done, nullptr);
    place = std::exchange(call.place, nullptr);
    if (connection_ == nullptr) {
      calls_.erase(it);
    } else {
      Head head;
      head.kind = Kind::kCancel;
      head.call = number;
      connection_->send(frame(head));
    }
  }
  done(std::move(outcome), {});
}

void TcpPeer::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
    if (connection_ != nullptr) connection_->close();
  }
  change_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void TcpPeer::run() {
  pthread_setname_np(pthread_self(), "tmflow_peer");
  while (has_calls()) {
    if (const std::unique_ptr<Connection> connection = open()) carry(*connection);
  }
  std::unique_lock lock(mutex_);
  const std::vector<Call> stopped = take_calls(true);
  lock.unlock();
  end(stopped, {kCancelled, kStopped});
}

// Waits for a call. False after a stop.
bool TcpPeer::has_calls() {
  std::unique_lock lock(mutex_);
  change_.wait(lock, [this] { return is_stopped_ || !calls_.empty(); });
  return !is_stopped_;
}

// Tries to connect, once. If it fails, it ends the calls that do not wait, and rests if there are others.
std::unique_ptr<Connection> TcpPeer::open() {
  try {
    Socket socket = connect_to(address_, kPatience, stop_);
    configure(socket, silence_);
    const Deadline deadline{Clock::now() + kPatience, stop_};
    greet(socket, identity_, deadline);
    return carrier_->connect(std::move(socket), deadline);
  } catch (const Failure& failure) {
    const Outcome outcome{failure.code(), "cannot connect to " + address_ + ": " + failure.what()};
    std::unique_lock lock(mutex_);
    failure_ = outcome.text;
    const std::vector<Call> failed = take_calls(failure.code() != kUnavailable);
    const bool others_wait = !calls_.empty();
    lock.unlock();
    end(failed, outcome);
    lock.lock();
    if (others_wait) change_.wait_for(lock, kRetry, [this] { return is_stopped_; });
    return nullptr;
  }
}

// Sends the calls, reads their answers until the connection is lost, and ends those that are left.
void TcpPeer::carry(Connection& connection) {
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) return;
    connection_ = &connection;
    failure_.clear();
    for (auto& [number, call] : calls_) send_request(number, call);
  }
  Outcome outcome{kUnavailable, "the connection to " + address_ + " was lost: "};
  try {
    for (;;) read_answer(connection);
  } catch (const std::exception& error) {
    outcome.text += error.what();
  }
  std::vector<Call> lost;
  {
    const std::lock_guard lock(mutex_);
    if (is_stopped_) outcome = {kCancelled, kStopped};
    connection_ = nullptr;
    lost = take_calls(true);
  }
  end(lost, outcome);
}

// The mutex is held.
void TcpPeer::send_request(std::uint64_t number, Call& call) {
  Head head;
  head.kind = Kind::kRequest;
  head.method = call.method;
  head.call = number;
  connection_->send(frame(head, {}, {std::move(call.request), {}, {}}));
}

// The calls, or only those that do not wait for a connection. The mutex is held.
std::vector<TcpPeer::Call> TcpPeer::take_calls(bool also_waiting) {
  std::vector<Call> taken;
  for (auto it = calls_.begin(); it != calls_.end();) {
    Call& call = it->second;
    if (call.waits && !also_waiting) {
      ++it;
      continue;
    }
    forget_timer(call);
    taken.push_back(std::move(call));
    it = calls_.erase(it);
  }
  return taken;
}

void TcpPeer::end(const std::vector<Call>& calls, const Outcome& outcome) {
  for (const Call& call : calls) {
    if (call.done) call.done(call.interruption.value_or(outcome), {});
  }
}

// The mutex is held.
void TcpPeer::forget_timer(Call& call) {
  if (call.timer) timers_->remove(*call.timer);
  call.timer.reset();
}

void TcpPeer::read_answer(Connection& connection) {
  const Head head = connection.read_head();
  if (!is_valid(head, Kind::kAnswer)) throw Failure("it has sent what is no answer");
  {
    const std::lock_guard lock(mutex_);
    if (!calls_.contains(head.call)) throw Failure("it has answered what it was not asked");
  }
  Outcome outcome{head.code, connection.read_string(head.text)};
  std::string header = connection.read_string(head.header);
  Place place;
  {
    const std::lock_guard lock(mutex_);
    Call& call = calls_.at(head.call);
    if (call.done) {
      place = std::move(call.place);
      arriving_ = head.call;
      is_interrupted_ = false;
    }
  }
  // From here on, only this thread ends the call.
  char* const to = place && head.code == 0 ? place(header, head.body) : nullptr;
  std::size_t left = head.body;
  if (to != nullptr) {
    left = connection.read_body(to, head.body, is_interrupted_);
  } else if (head.body > 0) {
    outcome = {kInvalid, "the answer of " + address_ + " has " + std::to_string(head.body) +
                             " bytes, for which there is no place"};
  }
  Call ended;
  {
    const std::lock_guard lock(mutex_);
    const auto it = calls_.find(head.call);
    forget_timer(it->second);
    ended = std::move(it->second);
    calls_.erase(it);
  }
  if (ended.interruption) outcome = *std::move(ended.interruption);
  if (ended.done) ended.done(std::move(outcome), std::move(header));
  connection.skip(left);
}

}  // namespace tmflow::runtime::tcp
