#include "hpx_transport.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../transport/connection.hpp"
#include "../transport/handshake.hpp"
#include "parcels.hpp"

namespace tmflow::runtime {
namespace tcp {
namespace {

// A large body is sent in pieces of so many bytes. Then the receiver copies one while the next is on its way,
// and HPX uses the same memory for them again.
constexpr std::size_t kPiece = 1 << 20;

constexpr int kLook = 50;  // ms until whoever waits for the other end looks whether it is still there

// How many bytes of a connection are not sent yet.
class Queued final : public parcels::Sender {
 public:
  void add(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    bytes_ += bytes;
  }

  void sent(std::size_t bytes) override {
    const std::lock_guard lock(mutex_);
    bytes_ -= bytes;
    room_.notify_one();
  }

  void close() {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    room_.notify_one();
  }

  // Waits at most so many milliseconds; returns whether there is room, or need not be any more.
  bool wait_for_room(int limit) {
    std::unique_lock lock(mutex_);
    return room_.wait_for(lock, std::chrono::milliseconds(limit),
                          [this] { return is_closed_ || bytes_ < kMostQueued; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable room_;
  std::size_t bytes_ = 0;
  bool is_closed_ = false;
};

// What the two ends tell each other about their HPX.
struct Card {
  parcels::Key key, process;
  std::uint64_t port = 0;
  char address[48] = {};  // with zeros after it
};
static_assert(sizeof(Card) == 88 && std::has_unique_object_representations_v<Card>);

// The IP address of an end of the socket, as `getsockname` or `getpeername` gives it.
template <class Name>
std::string ip_of(const Socket& socket, Name name) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char text[INET6_ADDRSTRLEN] = {};
  if (name(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) throw Failure(error_text(errno));
  const void* const ip = address.ss_family == AF_INET
                             ? static_cast<const void*>(&reinterpret_cast<sockaddr_in&>(address).sin_addr)
                             : &reinterpret_cast<sockaddr_in6&>(address).sin6_addr;
  inet_ntop(address.ss_family, ip, text, sizeof text);
  return text;
}

class HpxConnection final : public Connection, public parcels::Receiver {
 public:
  HpxConnection(Socket socket, const Deadline& deadline)
      : socket_(std::move(socket)), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!wake_) throw Failure("cannot make an event: " + error_text(errno));
    const parcels::Endpoint here = parcels::start(ip_of(socket_, getsockname));
    parcels::open(ours_, *this);  // before the other end knows the key
    try {
      introduce(here, deadline);
    } catch (...) {
      parcels::close(ours_);
      throw;
    }
  }
  ~HpxConnection() override { end(); }

  void send(Frame frame) override {
    std::vector<Frame> pieces;
    const std::string_view body = frame.message.body;
    for (std::size_t begin = kPiece; begin < body.size(); begin += kPiece) {
      pieces.push_back({Head(), {}, {{}, body.substr(begin, kPiece), frame.message.owner}});
    }
    frame.message.body = body.substr(0, kPiece);
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (is_closed_) return;
      number = n_sent_;
      n_sent_ += 1 + pieces.size();
    }
    send(number, std::move(frame));
    for (Frame& piece : pieces) send(++number, std::move(piece));
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    fail("");
  }

  // HPX does not say that it cannot send to a process that has ended, but the socket does.
  void wait_for_room() override {
    while (!queued_->wait_for_room(kLook)) look_at_socket();
  }

  Head read_head() override {
    current_ = next_frame();
    rest_ = current_.message.body;
    is_text_read_ = current_.text.empty();
    const Head& head = current_.head;
    if (head.text != current_.text.size() || head.header != current_.message.header.size() ||
        head.body < rest_.size()) {
      throw Failure("it has sent a frame that is not complete");
    }
    return head;
  }

  // The text of the frame, and then its header.
  std::string read_string(std::size_t size) override {
    if (size == 0) return {};
    return std::move(std::exchange(is_text_read_, true) ? current_.message.header : current_.text);
  }

  std::size_t read_body(char* to, std::size_t size, const std::atomic<bool>& is_interrupted) override {
    std::size_t done = 0;
    while (done < size && !is_interrupted) {
      if (rest_.empty() && !next_piece(kLook)) continue;
      const std::string_view part = take(size - done);
      std::memcpy(to + done, part.data(), part.size());
      done += part.size();
    }
    return size - done;
  }

  void skip(std::size_t size) override {
    while (size > 0) {
      if (rest_.empty()) next_piece(-1);
      size -= take(size).size();
    }
    rest_ = {};
    current_ = {};
  }

  void end() override {
    close();
    parcels::close(ours_);
    parcels::drop(other_, theirs_);
    const std::lock_guard lock(mutex_);
    socket_ = Socket();
    early_.clear();
    arrived_.clear();
  }

  void receive(std::uint64_t number, Frame frame) override {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return;
    early_.emplace(number, std::move(frame));
    for (auto it = early_.begin(); it != early_.end() && it->first == n_arrived_; it = early_.erase(it)) {
      arrived_.push_back(std::move(it->second));
      ++n_arrived_;
    }
    if (!arrived_.empty() && std::exchange(is_waiting_, false)) eventfd_write(wake_.get(), 1);
  }

  void lose(const std::string& why) override {
    const std::lock_guard lock(mutex_);
    fail(why);
  }

 private:
  void introduce(const parcels::Endpoint& here, const Deadline& deadline) {
    Card card{ours_, parcels::process(), here.port};
    here.address.copy(card.address, sizeof card.address - 1);
    const std::string bytes(reinterpret_cast<const char*>(&card), sizeof card);
    std::memcpy(&card, exchange(socket_, bytes, deadline).data(), sizeof card);
    theirs_ = card.key;
    card.address[sizeof card.address - 1] = 0;
    other_ = {card.address, static_cast<std::uint16_t>(card.port)};
    if (parcels::is_loopback(other_.address) && !parcels::is_loopback(ip_of(socket_, getpeername))) {
      throw Failure("its HPX receives at " + other_.address + ", where this host cannot reach it", kInvalid);
    }
    parcels::watch(ours_, other_, card.process);
  }

  // The mutex is held.
  void fail(const std::string& why) {
    if (is_closed_) return;
    is_closed_ = true;
    why_ = why;
    shutdown(socket_.get(), SHUT_RDWR);
    eventfd_write(wake_.get(), 1);
    queued_->close();
  }

  void send(std::uint64_t number, Frame frame) {
    queued_->add(frame.size());
    parcels::send(other_, theirs_, number, std::move(frame), queued_);
  }

  // Up to so many bytes of the piece that is being read.
  std::string_view take(std::size_t size) {
    const std::string_view part = rest_.substr(0, size);
    rest_.remove_prefix(part.size());
    return part;
  }

  // Waits for the next piece of a body, at most so many milliseconds, or for ever if negative.
  bool next_piece(int limit) {
    if (!wait(limit)) return false;
    current_ = next_frame();
    rest_ = current_.message.body;
    if (current_.head.kind != Kind{} || rest_.empty()) throw Failure("it has not sent all of a body");
    return true;
  }

  Frame next_frame() {
    wait(-1);
    const std::lock_guard lock(mutex_);
    Frame frame = std::move(arrived_.front());
    arrived_.pop_front();
    return frame;
  }

  // Waits for a frame, and returns whether there is one. Throws a Failure if there is none and none can come.
  bool wait(int limit) {
    pollfd polled[] = {{socket_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    for (bool is_late = false;;) {
      {
        const std::lock_guard lock(mutex_);
        is_waiting_ = false;
        if (!arrived_.empty()) return true;
        if (is_closed_) throw Failure(why_.empty() ? "the other end has closed it" : why_);
        if (is_late) return false;
        is_waiting_ = true;
      }
      is_late = poll(polled, 2, limit) == 0;
      eventfd_t ignored = 0;
      eventfd_read(wake_.get(), &ignored);
      if (polled[0].revents != 0) look_at_socket();
    }
  }

  // Nothing is sent over the socket, so this is its end.
  void look_at_socket() {
    char byte = 0;
    const ssize_t received = recv(socket_.get(), &byte, 1, MSG_DONTWAIT);
    if (received < 0 && (errno == EAGAIN || errno == EINTR)) return;
    const std::string why = received < 0 ? error_text(errno) : "the other end has closed it";
    const std::lock_guard lock(mutex_);
    fail(why);
  }

  Socket socket_;  // open until `end`
  const Socket wake_;
  const parcels::Key ours_ = parcels::new_key();
  parcels::Key theirs_;
  parcels::Endpoint other_;
  const std::shared_ptr<Queued> queued_ = std::make_shared<Queued>();

  std::mutex mutex_;  // guards what follows
  std::uint64_t n_sent_ = 0, n_arrived_ = 0;
  std::map<std::uint64_t, Frame> early_;  // which arrived before one that was sent before them
  std::deque<Frame> arrived_;
  bool is_waiting_ = false;  // the thread that reads
  bool is_closed_ = false;
  std::string why_;

  // Of the thread that reads.
  Frame current_;          // or a piece of its body
  std::string_view rest_;  // of the piece
  bool is_text_read_ = false;
};

class HpxCarrier final : public Carrier {
 public:
  void prepare(const Socket& listener) override { parcels::start(ip_of(listener, getsockname)); }
  std::unique_ptr<Connection> connect(Socket socket, const Deadline& deadline) override {
    return std::make_unique<HpxConnection>(std::move(socket), deadline);
  }
};

}  // namespace
}  // namespace tcp

std::unique_ptr<Transport> hpx_transport(TcpOptions options) {
  options.greeting = "HPX " + parcels::version() + "; " + options.greeting;
  return transport_over(std::move(options), std::make_shared<tcp::HpxCarrier>());
}

}  // namespace tmflow::runtime
