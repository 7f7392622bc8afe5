#include "tcp.hpp"

#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "handshake.hpp"
#include "peer.hpp"
#include "server.hpp"
#include "socket.hpp"
#include "timers.hpp"

namespace tmflow::runtime {
namespace tcp {

class TcpTransport final : public Transport {
 public:
  TcpTransport(TcpOptions options, std::shared_ptr<Carrier> carrier)
      : identity_{"protocol 1; " + std::move(options.greeting), std::move(options.secret)},
        silence_(options.silence),
        carrier_(std::move(carrier)) {
    check(identity_);
  }
  ~TcpTransport() override { stop(); }

  int listen(const std::string& address, Service& service) override {
    const std::lock_guard lock(mutex_);
    try {
      if (is_stopped_) throw Failure("this task has stopped");
      Socket listener = listen_at(address);
      const int port = port_of(listener);
      carrier_->prepare(listener);
      servers_.push_back(
          std::make_unique<Server>(std::move(listener), service, identity_, silence_, *carrier_, stop_));
      return port;
    } catch (const std::exception& error) {
      throw std::runtime_error("cannot listen at " + address + ": " + error.what());
    }
  }

  std::shared_ptr<Peer> connect(const std::string& address) override {
    const std::lock_guard lock(mutex_);
    if (const auto it = peers_.find(address); it != peers_.end()) return it->second;
    auto peer = std::make_shared<TcpPeer>(address, identity_, silence_, carrier_, timers_, stop_);
    if (is_stopped_) {
      peer->stop();
    } else {
      peers_.emplace(address, peer);
    }
    return peer;
  }

  void stop() override {
    const std::lock_guard only(stopping_);  // a second thread waits until all has ended
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(is_stopped_, true)) return;
    }
    stop_.set();
    // Without the lock, because what they wait for may connect. There are no more of them now.
    for (const auto& [address, peer] : peers_) peer->stop();
    servers_.clear();
    timers_->stop();  // after the peers: nothing is added any more
  }

 private:
  const Identity identity_;
  const std::chrono::milliseconds silence_;
  const std::shared_ptr<Carrier> carrier_;
  StopSignal stop_;
  const std::shared_ptr<Timers> timers_ = std::make_shared<Timers>();
  std::mutex stopping_;  // taken before the other
  std::mutex mutex_;     // guards what follows, which changes only until the stop
  bool is_stopped_ = false;
  std::map<std::string, std::shared_ptr<TcpPeer>> peers_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace tcp

std::unique_ptr<Transport> tcp_transport(TcpOptions options) {
  return transport_over(std::move(options), std::make_shared<tcp::StreamCarrier>());
}

std::unique_ptr<Transport> transport_over(TcpOptions options, std::shared_ptr<tcp::Carrier> carrier) {
  return std::make_unique<tcp::TcpTransport>(std::move(options), std::move(carrier));
}

}  // namespace tmflow::runtime
