// The asymmetric fence on this machine: two threads each store a word, fence, and load the other's word. At
// least one must see the other's store.
#include "tmflow/adaptive/asymmetric_fence.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>

#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/run_together.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::adaptive {
namespace {

struct alignas(kCacheLine) Word {
  std::atomic<std::int64_t> value{0};
};

// What `AsymmetricFence` would be if the kernel did not make the other threads fence.
struct Unanswered {
  static void light() noexcept { std::atomic_signal_fence(std::memory_order_seq_cst); }
  static void heavy() noexcept { fence(std::memory_order_seq_cst); }
};

// Two threads that begin each round together. In round i, a word counts as set if it holds i.
class StoreBuffering {
 public:
  struct Outcome {
    bool failed = false;      // neither saw the other's store
    std::int64_t rounds = 0;  // in which neither thread yielded, this one included
  };

  // Runs rounds until one fails, at most `most` rounds and at most as long as `patience`.
  template <class Fence>
  Outcome run(std::int64_t most, std::chrono::seconds patience) {
    const auto end = std::chrono::steady_clock::now() + patience;
    for (Word* word : {&x_, &y_, &arrived_[0], &arrived_[1]}) word->value = 0;
    Outcome outcome;
    bool is_over = false, light_sees = false, was_prompt = false;
    const auto light = [&](std::int64_t round) {
      for (Word& word : before_) word.value.store(round, std::memory_order_relaxed);  // x waits behind these
      x_.value.store(round, std::memory_order_relaxed);
      Fence::light();
      light_sees = y_.value.load(std::memory_order_relaxed) == round;
    };
    const auto heavy = [&](std::int64_t round) {
      y_.value.store(round, std::memory_order_relaxed);
      Fence::heavy();
      const bool sees = x_.value.load(std::memory_order_relaxed) == round;
      for (Word& word : before_) word.value.fetch_add(0, std::memory_order_relaxed);  // the others miss them
      return sees;
    };
    const auto work = [&](int thread) {
      bind_to_processor(thread);
      for (std::int64_t round = 1;; ++round) {
        const bool begins_promptly = meet(thread, 2 * round - 1);
        if (is_over) return;
        bool sees = false;
        if (thread == 0) {
          was_prompt = begins_promptly;
          light(round);
        } else {
          sees = heavy(round);
        }
        meet(thread, 2 * round);
        if (thread == 0) continue;
        outcome.failed = !sees && !light_sees;
        outcome.rounds += begins_promptly && was_prompt;
        is_over = outcome.failed || outcome.rounds == most ||
                  (round % 64 == 0 && std::chrono::steady_clock::now() > end);
      }
    };
    run_at_once(2, work, [&] { std::abort(); });
    return outcome;
  }

 private:
  // Whether the other thread arrived before this one yielded.
  bool meet(int thread, std::int64_t when) {
    arrived_[static_cast<std::size_t>(thread)].value.store(when, std::memory_order_release);
    const std::atomic<std::int64_t>& other = arrived_[static_cast<std::size_t>(1 - thread)].value;
    std::uint32_t pauses = 0;
    while (other.load(std::memory_order_acquire) < when) Waiting<std::atomic>::once(Turn(++pauses));
    return pauses < Waiting<std::atomic>::kTurns;
  }

  // Binds each thread to a different processor of those that this process may use.
  static void bind_to_processor(int thread) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (int processor = 0, left = thread; processor < CPU_SETSIZE; ++processor) {
      if (!CPU_ISSET(processor, &allowed) || left-- > 0) continue;
      CPU_SET(processor, &one);
      sched_setaffinity(0, sizeof one, &one);
      return;
    }
  }

  Word x_, y_;
  std::array<Word, 8> before_;
  std::array<Word, 2> arrived_;
};

// First, without the kernel's fence, the rounds until a store is missed; then many times as many with it. If
// the kernel did not make the other threads fence, one of the first of these would fail.
TEST(AsymmetricFence, OneOfTwoSeesTheOther) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one processor misses none of its own stores";
  StoreBuffering litmus;
  const auto without = litmus.run<Unanswered>(1'000'000'000, std::chrono::seconds(120));
  ASSERT_TRUE(without.failed) << "nobody missed a store in " << without.rounds << " rounds without the fence";
  const auto with = litmus.run<AsymmetricFence>(20 * without.rounds + 2'000, std::chrono::seconds(120));
  EXPECT_FALSE(with.failed) << "in round " << with.rounds;
}

}  // namespace
}  // namespace tmflow::adaptive
