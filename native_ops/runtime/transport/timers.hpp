// A thread that calls functions at given times.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "socket.hpp"

namespace tmflow::runtime::tcp {

class Timers {
 public:
  using Key = std::pair<Clock::time_point, std::uint64_t>;

  Timers();
  ~Timers() { stop(); }

  // The function is called without a lock. It must not block.
  Key add(Clock::time_point time, std::function<void()> function);

  // The function may be running.
  void remove(const Key& key);

  // Nothing is called afterwards. Any thread but the timers' own may call it, once.
  void stop();

 private:
  void run();

  std::mutex mutex_;  // guards all below; no other lock is taken while it is held
  std::condition_variable change_;
  std::map<Key, std::function<void()>> functions_;
  std::uint64_t last_ = 0;
  bool is_stopped_ = false;
  std::thread thread_;
};

}  // namespace tmflow::runtime::tcp
