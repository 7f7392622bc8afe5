// Real transactions, where this machine has them, against a thread that takes the mutex: a transaction that
// does not subscribe to it loses updates.
#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "tmflow/registry.hpp"

namespace tmflow {
namespace {

void dawdle(int times) noexcept {
  for (int i = 0; i < times * 500; ++i) asm volatile("");
}

// Of the thread that holds the mutex: nearly all the time it is between its reading and its writing.
void slow(float* variable, const float* delta, float alpha, std::size_t) noexcept {
  const float seen = *static_cast<volatile float*>(variable);
  dawdle(8);
  *variable = seen - alpha * *delta;
}

// Of the transaction, which begins while the mutex is free: late enough for the other one to have taken it. A
// transaction that is not told so commits there, and what it wrote is overwritten.
void late(float* variable, const float* delta, float alpha, std::size_t) noexcept {
  dawdle(2);
  *variable -= alpha * *delta;
}

TEST(Subscription, KeepsTransactionsAndTheMutexApart) {
  if (const auto reason = Htm::why_not()) GTEST_SKIP() << *reason;
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "ThreadSanitizer cannot see that a transaction and a critical section exclude each other";
#endif
  constexpr int kUpdates = 20'000;
  std::vector<float> variable(1), delta(1, 1);
  ArrayRegion<float> region(variable);
  ThreadStats locking, eliding;
  Htm htm(parameters_of("htm", {}));
  std::barrier start(2);
  {
    std::jthread holder([&] {
      start.arrive_and_wait();
      for (int u = 0; u < kUpdates; ++u) {
        Lock::apply(region, {.alpha = -1, .delta = delta, .kernel = slow}, locking);
        dawdle(2);  // the mutex is free
      }
    });
    std::jthread other([&] {
      start.arrive_and_wait();
      for (int u = 0; u < kUpdates; ++u) {
        htm.apply(region, {.alpha = -1, .delta = delta, .kernel = late}, eliding);
      }
    });
  }
  EXPECT_EQ(variable[0], 2 * kUpdates);
  EXPECT_EQ(eliding.commits() + eliding.fallbacks(), kUpdates);
}

}  // namespace
}  // namespace tmflow
