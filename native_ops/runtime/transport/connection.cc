#include "connection.hpp"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace tmflow::runtime::tcp {
namespace {

constexpr std::size_t kBuffer = 64 << 10;
constexpr int kLook = 50;  // ms until a body that does not arrive is looked at again

// Sends what is left of the frame. With MSG_DONTWAIT it returns false if the socket takes no more now.
bool transmit(const Socket& socket, Frame& frame, int flags) {
  while (frame.sent < frame.size()) {
    const std::string_view parts[] = {{reinterpret_cast<const char*>(&frame.head), sizeof frame.head},
                                      frame.text,
                                      frame.message.header,
                                      frame.message.body};
    iovec left[std::size(parts)];
    msghdr message{};
    message.msg_iov = left;
    std::size_t skipped = frame.sent;
    for (const std::string_view part : parts) {
      const std::size_t skip = std::min(skipped, part.size());
      skipped -= skip;
      if (skip < part.size()) {
        left[message.msg_iovlen++] = {const_cast<char*>(part.data()) + skip, part.size() - skip};
      }
    }
    const ssize_t sent = sendmsg(socket.get(), &message, flags | MSG_NOSIGNAL);
    if (sent >= 0) {
      frame.sent += static_cast<std::size_t>(sent);
    } else if (errno == EAGAIN) {
      return false;
    } else if (errno != EINTR) {
      throw Failure(error_text(errno));
    }
  }
  return true;
}

}  // namespace

void StreamConnection::send(Frame frame) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
  try {
    if (queue_.empty() && transmit(socket_, frame, MSG_DONTWAIT)) return;
    if (!writer_.joinable()) writer_ = std::thread([this] { write(); });
  } catch (const std::exception& error) {
    fail(error.what());
    return;
  }
  queued_ += frame.size();
  queue_.push_back(std::move(frame));
  work_.notify_one();
}

void StreamConnection::write() {
  pthread_setname_np(pthread_self(), "tmflow_send");
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return is_closed_ || !queue_.empty(); });
    if (is_closed_) return;
    Frame& first = queue_.front();
    lock.unlock();
    std::string why;
    try {
      transmit(socket_, first, 0);
    } catch (const Failure& failure) {
      why = failure.what();
    }
    lock.lock();
    if (!why.empty()) fail(why);
    {
      const Frame sent = std::move(queue_.front());
      queue_.pop_front();
      queued_ -= sent.size();
      lock.unlock();
      room_.notify_one();
    }  // without the lock: this may free memory, or whatever its owner does
    lock.lock();
  }
}

void StreamConnection::close() {
  const std::lock_guard lock(mutex_);
  fail("");
}

// The mutex is held.
void StreamConnection::fail(const std::string& why) {
  if (is_closed_) return;
  is_closed_ = true;
  why_ = why;
  shutdown(socket_.get(), SHUT_RDWR);
  work_.notify_one();
  room_.notify_one();
}

void StreamConnection::wait_for_room() {
  std::unique_lock lock(mutex_);
  room_.wait(lock, [this] { return is_closed_ || queued_ < kMostQueued; });
}

// At least one byte; 0 only with MSG_DONTWAIT, if there is none.
std::size_t StreamConnection::receive(char* to, std::size_t size, int flags) {
  for (;;) {
    const ssize_t received = recv(socket_.get(), to, size, flags);
    if (received > 0) return static_cast<std::size_t>(received);
    if (received < 0 && errno == EINTR) continue;
    if (received < 0 && errno == EAGAIN) return 0;
    const std::string why = received < 0 ? error_text(errno) : "the other end has closed it";
    const std::lock_guard lock(mutex_);
    throw Failure(why_.empty() ? why : why_);
  }
}

std::size_t StreamConnection::take_buffered(char* to, std::size_t size) {
  const std::size_t taken = std::min(size, end_ - begin_);
  if (taken > 0) std::memcpy(to, buffer_.get() + begin_, taken);
  begin_ += taken;
  return taken;
}

void StreamConnection::fill() {
  if (!buffer_) buffer_.reset(new char[kBuffer]);
  begin_ = end_ = 0;
  end_ = receive(buffer_.get(), kBuffer, 0);
}

void StreamConnection::read(char* to, std::size_t size) {
  while (size > 0) {
    if (begin_ == end_) fill();
    const std::size_t taken = take_buffered(to, size);
    to += taken;
    size -= taken;
  }
}

Head StreamConnection::read_head() {
  Head head;
  read(reinterpret_cast<char*>(&head), sizeof head);
  return head;
}

// The memory grows with what has arrived, so a size that is only claimed costs nothing.
std::string StreamConnection::read_string(std::size_t size) {
  std::string text;
  while (text.size() < size) {
    const std::size_t had = text.size();
    text.resize(std::min(size, std::max(2 * had, kBuffer)));
    read(text.data() + had, text.size() - had);
  }
  return text;
}

std::size_t StreamConnection::read_body(char* to, std::size_t size, const std::atomic<bool>& is_interrupted) {
  std::size_t done = take_buffered(to, size);
  while (done < size && !is_interrupted) {
    const std::size_t received = receive(to + done, size - done, MSG_DONTWAIT);
    done += received;
    if (received == 0) {
      pollfd polled{socket_.get(), POLLIN, 0};
      poll(&polled, 1, kLook);
    }
  }
  return size - done;
}

void StreamConnection::skip(std::size_t size) {
  while (size > 0) {
    if (begin_ == end_) fill();
    const std::size_t skipped = std::min(size, end_ - begin_);
    begin_ += skipped;
    size -= skipped;
  }
}

void StreamConnection::end() {
  close();
  if (writer_.joinable()) writer_.join();
  std::deque<Frame> dropped;
  {
    const std::lock_guard lock(mutex_);
    dropped.swap(queue_);
    socket_ = Socket();
  }
}

}  // namespace tmflow::runtime::tcp
