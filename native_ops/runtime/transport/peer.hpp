// The calls of this task to one other, over one connection.
#pragma once

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "connection.hpp"
#include "handshake.hpp"
#include "timers.hpp"
#include "transport.hpp"

namespace tmflow::runtime::tcp {

// Its thread opens the connection when there is a call, and reads from it until it is lost. All `Done` are
// called by this thread or that of the timers, without a lock, so they may call and cancel, and none is
// called after both ended.
class TcpPeer final : public Peer {
 public:
  // `stop` must live until the peer and the timers have stopped; the peer may live longer.
  TcpPeer(std::string address, Identity identity, std::chrono::milliseconds silence,
          std::shared_ptr<Carrier> carrier, std::shared_ptr<Timers> timers, const StopSignal& stop);
  ~TcpPeer() override { stop(); }

  std::uint64_t call(std::uint8_t method, std::string request, Place place, Options options,
                     Done done) override;
  void cancel(std::uint64_t call) override;

  // Ends all calls, after `stop` was set. Called by one thread, as often as it likes.
  void stop();

 private:
  struct Call {
    std::uint8_t method;
    std::string request;  // until it is sent
    Place place;
    Done done;  // empty when the call has ended before its answer, which will be skipped
    bool waits;
    std::optional<Timers::Key> timer;
    std::optional<Outcome> interruption;  // how it ends if it was cancelled or late while its body arrived
  };

  void run();
  bool has_calls();
  std::unique_ptr<Connection> open();
  void carry(Connection& connection);
  void read_answer(Connection& connection);
  void send_request(std::uint64_t number, Call& call);
  void interrupt(std::uint64_t number, Outcome outcome);
  std::vector<Call> take_calls(bool also_waiting);
  static void end(const std::vector<Call>& calls, const Outcome& outcome);
  void forget_timer(Call& call);

  const std::string address_;
  const Identity identity_;
  const std::chrono::milliseconds silence_;
  const std::shared_ptr<Carrier> carrier_;
  const std::shared_ptr<Timers> timers_;
  const StopSignal& stop_;

  // Guards what follows. The mutexes of the connection and of the timers are taken while it is held.
  std::mutex mutex_;
  std::condition_variable change_;
  std::map<std::uint64_t, Call> calls_;  // by number, so in their order
  std::uint64_t last_ = 0;
  std::uint64_t arriving_ = 0;  // the last call whose body was placed: if it has not ended, it arrives now
  Connection* connection_ = nullptr;  // all calls were sent over it, or wait for one
  std::string failure_;               // of the last attempt to connect, for calls that wait
  bool is_stopped_ = false;

  std::atomic<bool> is_interrupted_{false};  // the call that arrives
  std::thread thread_;
};

}  // namespace tmflow::runtime::tcp
