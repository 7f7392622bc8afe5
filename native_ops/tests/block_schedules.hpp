// Forced schedules for strategies with blocks, and atomics that report what happens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <concepts>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "in_step.hpp"
#include "tmflow/combining/publications.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/run_together.hpp"
#include "tmflow/sync/thread_number.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {
namespace watched {

// Atomics that give all threads the same order of blocks.
template <class T>
struct Forward : std::atomic<T> {
  using std::atomic<T>::atomic;
};

// Atomics that report every store of a word of bits, and every turn of waiting.
inline void (*on_store)() = [] {};
inline void (*on_wait)() = [] {};
template <class T>
struct Reporting : std::atomic<T> {
  using std::atomic<T>::atomic;
  void store(T value, std::memory_order order) noexcept {
    if constexpr (std::same_as<T, Board<>::Bits>) on_store();
    std::atomic<T>::store(value, order);
  }
};

}  // namespace watched

template <>
struct ThreadNumber<watched::Forward> {
  static unsigned own() noexcept { return 0; }
};

template <>
struct Waiting<watched::Reporting> {
  static void once(Turn) {
    watched::on_wait();
    std::this_thread::yield();
  }
};

namespace watched {

// Two threads and two blocks of one element each. Thread A's update holds block 0 until a given event in
// thread B's update.
class HeldUp {
 public:
  static constexpr std::size_t kElements = 2;

  // Runs A's update, then B's; A's continues once `awaited` has happened, or after a timeout.
  template <class S>
  void run(S& strategy) {
    running = this;
    std::thread a([&] { apply(strategy, 1, of_a); });
    {
      std::unique_lock held(mutex);
      changed.wait(held, [&] { return a_is_in; });
    }
    std::thread b([&] {
      apply(strategy, 10, of_b);
      for (const float& value : variable) b_is_in_all &= loaded(value) >= 10;
      happened("end of B");
    });
    a.join();
    b.join();
  }

  void happened(const char* event) {
    const std::lock_guard held(mutex);
    events.insert(event);
    changed.notify_all();
  }

  std::string awaited;
  // Long, because a busy machine may keep B from its processor for seconds; short where the event never
  // comes.
  std::chrono::milliseconds patience = std::chrono::minutes(1);
  std::set<std::string> events;
  std::vector<float> variable = std::vector<float>(kElements);
  bool b_is_in_all = true;  // when B's update has returned
  ThreadStats of_a, of_b;

 private:
  template <class S>
  void apply(S& strategy, float unit, ThreadStats& stats) {
    is_a = unit == 1;
    const std::vector<float> delta(kElements, unit);
    strategy.apply(region, {.alpha = -1, .delta = delta, .kernel = kernel}, stats);
  }

  static void kernel(float* variable, const float* delta, float alpha, std::size_t n) noexcept {
    HeldUp& own = *running;
    if (is_a && delta[0] == 1) own.hold_up();
    for (std::size_t i = 0; i < n; ++i) {
      std::atomic_ref(variable[i]).store(loaded(variable[i]) - alpha * delta[i], std::memory_order_relaxed);
    }
    if (!is_a) own.happened(delta[0] == 1 ? "A's update by B" : "B's update by B");
  }

  // Atomic, because A's thread may still write other blocks.
  static float loaded(const float& value) noexcept {
    return std::atomic_ref(const_cast<float&>(value)).load(std::memory_order_relaxed);
  }

  void hold_up() {
    std::unique_lock held(mutex);
    if (a_is_in) return;
    a_is_in = true;
    changed.notify_all();
    changed.wait_for(held, patience, [&] { return events.contains(awaited); });
  }

  inline static HeldUp* running = nullptr;
  inline static thread_local bool is_a = false;
  std::mutex mutex;
  std::condition_variable changed;
  bool a_is_in = false;
  ArrayRegion<float> region{std::span<float>(variable)};
};

inline const std::vector<float> kBoth(HeldUp::kElements, 11);

// A continues after B has published and waits for A's block: A finds B's update at the next block.
template <class S>
std::vector<float> after_meeting_a_publication(S& strategy) {
  static HeldUp* schedule;
  HeldUp own;
  schedule = &own;
  own.awaited = "B waits";
  on_wait = [] { schedule->happened("B waits"); };
  own.run(strategy);
  EXPECT_TRUE(own.events.contains("B waits"));
  on_wait = [] {};
  return own.variable;
}

// The value of each block of one element when it is marked as updated.
template <class S>
std::vector<float> when_marked(S& strategy) {
  static std::vector<float> variable, seen;
  variable.assign(4, 0);
  seen.clear();
  ArrayRegion<float> region{std::span<float>(variable)};
  const std::vector<float> delta(4, 1);
  ThreadStats stats;
  on_store = [] { seen.push_back(variable[seen.size()]); };
  strategy.apply(region, {.alpha = -1, .delta = delta}, stats);
  on_store = [] {};
  return seen;
}

// Half a block is written, the reader copies the block if it can, and then the other half is written.
inline void half_meet_half(float* variable, const float* delta, float alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    if (i == n / 2) {
      seeded::meeting->wait();
      seeded::meeting->wait();
    }
    std::atomic_ref(variable[i]).store(variable[i] - alpha * delta[i], std::memory_order_relaxed);
  }
}

inline void meet_copy_meet(const float* from, float* to, std::size_t n) noexcept {
  seeded::meeting->wait();
  for (std::size_t i = 0; i < n; ++i) {
    to[i] = std::atomic_ref(const_cast<float&>(from[i])).load(std::memory_order_relaxed);
  }
  seeded::meeting->wait();
}

// Whether a snapshot of one block, taken during an update, is consistent.
template <class S>
bool reads_whole_blocks(S& strategy, std::chrono::milliseconds patience) {
  seeded::Meeting own(patience);
  seeded::meeting = &own;
  std::vector<float> variable(8), copy(8);
  ArrayRegion<float> region{std::span<float>(variable)};
  run_at_once(
      2,
      [&](int thread) {
        ThreadStats stats;
        const std::vector<float> delta(8, 1);
        if (thread == 0) {
          strategy.apply(region, {.alpha = -1, .delta = delta, .kernel = half_meet_half}, stats);
        } else {
          strategy.read(region, {.into = copy, .copy = meet_copy_meet}, stats);
        }
      },
      [] {});
  return std::ranges::all_of(copy, [&](float value) { return value == copy[0]; });
}

}  // namespace watched
}  // namespace tmflow
