#include "std_pool.hpp"

#include <pthread.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "pool_threads.hpp"

namespace tmflow::runtime {
namespace {

using namespace std::chrono_literals;

constexpr auto kSpin = 50us;   // waking a sleeping thread costs as much; one thread spins at a time
constexpr auto kStuck = 50ms;  // without a task taken and hardly any processor time used, while tasks wait

class Pool {
 public:
  // It is never destroyed, because steps may run while the process ends.
  static Pool& shared() {
    static Pool* const pool = new Pool(pool_threads());
    return *pool;
  }

  void submit(std::span<const Task> tasks) {
    int wake = 0;
    bool is_stuck = false;
    {
      const std::lock_guard lock(mutex_);
      queue_.insert(queue_.end(), tasks.begin(), tasks.end());
      const int needed = static_cast<int>(std::min(queue_.size(), kMostThreads)) - (spins_ ? 1 : 0);
      wake = std::min(needed, sleeping_);
      // A thread that has been woken counts as sleeping until it runs, and takes one task.
      is_stuck = needed > sleeping_ && watcher_sleeps_;
      if (is_stuck) watcher_sleeps_ = false;
    }
    // After the mutex is free: the thread that spins would have to sleep until then.
    submissions_.fetch_add(1, std::memory_order_release);
    if (wake == 1) {
      work_.notify_one();
    } else if (wake > 1) {
      work_.notify_all();
    }
    if (is_stuck) busy_.notify_one();
  }

 private:
  explicit Pool(int threads) : wanted_(threads) {
    const std::lock_guard lock(mutex_);
    for (int i = 0; i < threads; ++i) add_thread();
    std::thread([this] { watch(); }).detach();
  }

  // The mutex is held.
  void add_thread() {
    std::thread thread([this] { serve(); });
    threads_.push_back(thread.native_handle());
    thread.detach();
  }

  void serve() {
    pthread_setname_np(pthread_self(), "tmflow_pool");
    std::unique_lock lock(mutex_);
    for (;;) {
      if (queue_.empty()) {
        if (static_cast<int>(threads_.size()) > wanted_) break;
        wait(lock);
        if (queue_.empty()) continue;
      }
      Task task = queue_.front();
      queue_.pop_front();
      ++taken_;
      lock.unlock();
      task();
      lock.lock();
    }
    std::erase(threads_, pthread_self());
  }

  // Waits for a task: spins for a moment, if no other thread does, then sleeps.
  void wait(std::unique_lock<std::mutex>& lock) {
    if (!spins_) {
      spins_ = true;
      const auto seen = submissions_.load(std::memory_order_relaxed);
      lock.unlock();
      const auto end = std::chrono::steady_clock::now() + kSpin;
      while (submissions_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < end) {
        std::this_thread::yield();  // the thread that waits for this step may be on this processor
      }
      lock.lock();
      spins_ = false;  // `submit` counts on this thread until here, and the queue is read below
      if (!queue_.empty()) return;
    }
    ++sleeping_;
    work_.wait(lock, [this] { return !queue_.empty(); });
    --sleeping_;
  }

  // Adds a thread when all of them wait while tasks do, as when a Python function in a graph calls another
  // graph.
  void watch() {
    pthread_setname_np(pthread_self(), "tmflow_watch");
    std::unique_lock lock(mutex_);
    for (;;) {
      while (!queue_.empty()) {
        const auto taken = taken_;
        const auto used = processor_time();
        lock.unlock();
        std::this_thread::sleep_for(kStuck);
        lock.lock();
        const bool is_stuck = taken == taken_ && !queue_.empty() && processor_time() - used < kStuck / 10;
        if (is_stuck && threads_.size() < kMostThreads) add_thread();
      }
      watcher_sleeps_ = true;
      busy_.wait(lock, [this] { return !watcher_sleeps_; });
    }
  }

  // Of all threads of the pool: one that runs a long kernel uses it, one that waits does not. The mutex is
  // held.
  std::chrono::nanoseconds processor_time() const {
    std::chrono::nanoseconds used{0};
    for (const pthread_t thread : threads_) {
      clockid_t clock;
      timespec time;
      if (pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &time) == 0) {
        used += std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
      }
    }
    return used;
  }

  std::mutex mutex_;
  std::condition_variable work_, busy_;
  std::deque<Task> queue_;
  std::atomic<uint64_t> submissions_{0};  // for the thread that spins
  std::vector<pthread_t> threads_;
  const int wanted_;  // threads; others that were added end when there is nothing to do
  uint64_t taken_ = 0;
  int sleeping_ = 0;
  bool spins_ = false, watcher_sleeps_ = false;
};

}  // namespace

void StdPool::spawn(const Runner&, std::span<const Task> tasks) { Pool::shared().submit(tasks); }

}  // namespace tmflow::runtime
