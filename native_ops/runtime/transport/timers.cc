#include "timers.hpp"

#include <pthread.h>

namespace tmflow::runtime::tcp {

Timers::Timers() : thread_([this] { run(); }) {}

Timers::Key Timers::add(Clock::time_point time, std::function<void()> function) {
  const std::lock_guard lock(mutex_);
  const Key key(time, ++last_);
  const auto added = functions_.emplace(key, std::move(function)).first;
  if (added == functions_.begin()) change_.notify_one();
  return key;
}

void Timers::remove(const Key& key) {
  const std::lock_guard lock(mutex_);
  functions_.erase(key);
}

void Timers::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopped_ = true;
  }
  change_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Timers::run() {
  pthread_setname_np(pthread_self(), "tmflow_timers");
  std::unique_lock lock(mutex_);
  while (!is_stopped_) {
    if (functions_.empty()) {
      change_.wait(lock);
    } else if (const auto time = functions_.begin()->first.first; time > Clock::now()) {
      change_.wait_until(lock, time);
    } else {
      const auto function = functions_.extract(functions_.begin());
      lock.unlock();
      function.mapped()();
      lock.lock();
    }
  }
}

}  // namespace tmflow::runtime::tcp
