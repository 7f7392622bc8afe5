// Strategies with a bug each, for the tests of what is to find them.
#pragma once

#include <atomic>
#include <barrier>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tmflow/strategies/lock.hpp"

namespace tmflow::seeded {

// As `lock`, but the n-th update of all (n from 1), and with `repeat` every n-th, goes wrong as Bug has it.
template <class Bug>
class Faulty {
 public:
  Faulty(int n, bool repeat, Bug bug) : n_(n), repeat_(repeat), bug_(bug) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const int number = ++count_;
    if (number == n_ || (repeat_ && number % n_ == 0)) {
      const std::lock_guard held(region.mutex());
      bug_(region.memory(Holding::mutex), update);
      stats.count_update();
    } else {
      Lock::apply(region, update, stats);
    }
  }

 private:
  const int n_;
  const bool repeat_;
  const Bug bug_;
  std::atomic<int> count_{0};
};

struct Drop {
  template <class Memory, class Update>
  void operator()(Memory, const Update&) const {}
};

struct Double {
  template <class Memory, class Update>
  void operator()(Memory memory, const Update& update) const {
    update(memory, 0, memory.size());
    update(memory, 0, memory.size());
  }
};

// What belongs to element `from` lands on element `to`.
struct Misplace {
  std::size_t from, to;

  template <class Memory, class Update>
  void operator()(Memory memory, const Update& update) const {
    update(memory, 0, from);
    update(memory, from + 1, memory.size() - from - 1);
    memory[to] -= update.alpha * update.delta[from];
  }
};

// A mutex for each thread instead of one for all. Two threads take turns so that both have read before either
// writes: of every two updates exactly one is lost.
class PrivateLockInStep {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const std::lock_guard held(own_mutex());
    const auto memory = region.memory(Holding::nothing);
    std::vector<std::atomic_ref<typename R::Value>> shared(memory.begin(), memory.end());
    std::vector<typename R::Value> seen(shared.begin(), shared.end());
    in_step_.arrive_and_wait();
    update(seen, 0, seen.size());
    for (std::size_t i = 0; i < seen.size(); ++i) shared[i] = seen[i];
    in_step_.arrive_and_wait();
    stats.count_update();
  }

 private:
  static std::mutex& own_mutex() {
    thread_local std::mutex mutex;
    return mutex;
  }

  std::barrier<> in_step_{2};
};

// The same bug as it would be made, for ThreadSanitizer.
struct PrivateLock {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    thread_local std::mutex mutex;
    const std::lock_guard held(mutex);
    const auto memory = region.memory(Holding::nothing);
    update(memory, 0, memory.size());
    stats.count_update();
  }
};

}  // namespace tmflow::seeded
