// Ends work that takes too long: native code cannot be interrupted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace tmflow::runner {

// Calls `give_up` if it still exists after `limit_s` seconds; `give_up` must end the process. Once the
// destructor has returned, `give_up` was not called and will not be.
class Watch {
 public:
  Watch(double limit_s, std::function<void()> give_up)
      : thread_([limit_s, give_up = std::move(give_up)](std::stop_token ended) {
          std::mutex mutex;
          std::condition_variable_any wakes;
          std::unique_lock held(mutex);
          const auto limit = std::chrono::duration<double>(limit_s);
          wakes.wait_for(held, ended, limit, [] { return false; });
          if (!ended.stop_requested()) give_up();
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace tmflow::runner
