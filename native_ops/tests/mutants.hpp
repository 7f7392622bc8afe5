// Copies of the strategies and of their parts, each with a likely bug.
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>

#include "in_step.hpp"
#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/stripes.hpp"
#include "tmflow/htm/fitting.hpp"
#include "tmflow/htm/mutex_word.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::mutants {

// lock that releases the mutex before the update.
struct LockReleasedEarly {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    {
      const std::lock_guard held(region.mutex());
    }
    const auto memory = region.memory(Holding::nothing);
    update(memory, 0, memory.size());
    stats.count_update();
  }
};

// lock_pthread with one mutex per thread instead of one for all.
struct PrivateMutex {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    thread_local std::mutex mutex;
    const std::lock_guard held(mutex);
    const auto memory = region.memory(Holding::nothing);
    update(memory, 0, memory.size());
    stats.count_update();
  }
};

// The lock of spin, taken by a load and a store instead of an exchange. The threads meet between the two.
class LoadThenStore {
 public:
  void lock() noexcept {
    while (taken_.load(std::memory_order_acquire)) pause_processor();
    seeded::meeting->wait();
    taken_.store(true, std::memory_order_relaxed);
  }

  void unlock() noexcept { taken_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> taken_{false};
};

// spin_then_mutex that continues without the mutex after its tries.
struct SpinThenNothing {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    std::unique_lock held(region.mutex(), std::defer_lock);
    for (int tries = 0; tries < 1000 && !held.try_lock(); ++tries) pause_processor();
    const auto memory = region.memory(Holding::nothing);
    update(memory, 0, memory.size());
    stats.count_update();
  }
};

// A provider whose transactions are never disturbed, like a real one that reads and commits between the read
// and the write of a thread that holds the mutex. It checks the mutex as the real ones do.
struct Unharmed {
  template <class Taken, class Body>
  bool attempt(const Taken& taken, const Body& body, htm::Ended& ended) const {
    if (taken()) {
      ended = {.status = (30u << 24) | 1, .hopeless = false};
      return false;
    }
    body();
    return true;
  }
};

// A provider that does not undo the writes of an abort.
struct NotUndone {
  template <class Taken, class Body>
  bool attempt(const Taken&, const Body& body, htm::Ended& ended) const {
    body();
    ended = {.status = 0, .hopeless = false};
    return false;
  }
};

// htm without subscription, with one thread under the mutex and one in a transaction: no bit of the mutex
// shows that it is taken. (subscription_test.cc has a real transaction without subscription.)
class MutexBesideTransaction {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    htm::ElidableMutex mutex = htm::elidable(region.mutex());
    mutex.mask = 0;
    const std::int64_t attempts = turns_++ % 2 == 0 ? 0 : 5;
    const auto whole = [&] { update(memory, 0, memory.size()); };
    htm::elide(Unharmed(), mutex, {attempts, htm::Spending::study_tsx}, stats, whole, whole);
    stats.count_update();
  }

 private:
  std::atomic<unsigned> turns_{0};
};

// htm whose one attempt aborts and leaves its writes.
struct AbortsWithoutUndoing {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const auto whole = [&] { update(memory, 0, memory.size()); };
    htm::elide(NotUndone(), htm::elidable(region.mutex()), {1, htm::Spending::study_tsx}, stats, whole,
               whole);
    stats.count_update();
  }
};

// htm that takes the mutex when the budget is spent, but then forgets the update.
struct FallsBackToNothing {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    htm::elide(
        Unharmed(), htm::elidable(region.mutex()), {0, htm::Spending::study_tsx}, stats,
        [&] { update(memory, 0, memory.size()); }, [] {});
    stats.count_update();
  }
};

// htm_if_fits without subscription, with one thread under the lock of the only block and one in a
// transaction, to which no lock seems to be taken.
class LockBesideTransaction {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes = stripes_.of(memory.size(), memory.size(), memory.size());
    const bool fits = turns_++ % 2 != 0;
    htm::update_whole_or_by_block(
        fits, {5, htm::Spending::study_tsx}, stats,
        [&](htm::Budget budget) {
          return htm::try_transactions(Unharmed(), NeverTaken(), budget, stats,
                                       [&] { update(memory, 0, memory.size()); });
        },
        [&] { update_by_block(stripes, update, memory, stats); });
  }

 private:
  struct NeverTaken {
    static bool taken() noexcept { return false; }
    static void wait(Turn) noexcept {}
  };

  LazyBySize<Stripes> stripes_;
  std::atomic<unsigned> turns_{0};
};

// Chunks that end one element too late or one too early.
struct WrongBorder {
  std::size_t chunk;
  int error;

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) const {
    const std::lock_guard held(region.mutex());
    const auto memory = region.memory(Holding::mutex);
    for (std::size_t first = 0; first < memory.size(); first += chunk) {
      const std::size_t left = memory.size() - first;
      update(memory, first, std::min(chunk + static_cast<std::size_t>(error), left));
    }
    stats.count_update();
  }
};

// lock with a wrong kernel.
template <template <class> class Kernel>
struct WithKernel {
  template <Region R>
  static void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    Lock().apply(region, {update.alpha, update.delta, Kernel<typename R::Value>::run}, stats);
  }
};

template <class T>
struct SkipsTheLast {
  static void run(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
    for (std::size_t i = 0; i + 1 < n; ++i) variable[i] -= alpha * delta[i];
  }
};

template <class T>
struct SkipsTheFirst {
  static void run(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
    for (std::size_t i = 1; i < n; ++i) variable[i] -= alpha * delta[i];
  }
};

// The rest of a loop over vectors begins one vector too early.
template <class T>
struct RestTwice {
  static constexpr std::size_t kWidth = 8;
  static void run(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
    const std::size_t whole = n - n % kWidth;
    for (std::size_t i = 0; i < whole; ++i) variable[i] -= alpha * delta[i];
    for (std::size_t i = std::max(whole, kWidth) - kWidth; i < n; ++i) variable[i] -= alpha * delta[i];
  }
};

// Reads the gradient of its neighbour.
template <class T>
struct OffByOne {
  static void run(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[(i + 1) % n];
  }
};

}  // namespace tmflow::mutants
