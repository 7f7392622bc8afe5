// The audit catches each mutant of our strategies, every time and to the last element: a strategy that passes
// the audit has none of these bugs.
#include "mutants.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/strategies/leashed.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/lock_pthread.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/strategies/spin.hpp"
#include "tmflow/strategies/spin_then_mutex.hpp"
#include "tmflow/sync/own_mutex.hpp"

namespace tmflow {
namespace {

using seeded::audit_in_step;
using seeded::kInStep;

template <class T>
class Mutants : public ::testing::Test {
 protected:
  // One of every two updates is missing, and nothing else is wrong.
  template <class S>
  static void lose_half(S&& mutant) {
    const AuditReport report = audit_in_step<T>(mutant);
    EXPECT_EQ(report.tally.lost, kInStep.updates * kInStep.elements);
    EXPECT_EQ(report.lost_fraction(), 0.5);
    EXPECT_EQ(report.tally.doubled, 0);
    EXPECT_EQ(report.tally.corrupt, 0);
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Mutants, Types);

TYPED_TEST(Mutants, OfLock) { this->lose_half(mutants::LockReleasedEarly{}); }

TYPED_TEST(Mutants, OfLockPthread) { this->lose_half(mutants::PrivateMutex{}); }

TYPED_TEST(Mutants, OfSpin) { this->lose_half(OwnMutex<mutants::LoadThenStore>{}); }

TYPED_TEST(Mutants, OfSpinThenMutex) { this->lose_half(mutants::SpinThenNothing{}); }

TYPED_TEST(Mutants, OfHtmWithoutSubscription) { this->lose_half(mutants::MutexBesideTransaction()); }

TYPED_TEST(Mutants, OfHtmIfFitsWithoutSubscription) { this->lose_half(mutants::LockBesideTransaction()); }

TYPED_TEST(Mutants, OfWhichNoLockIsOne) { this->lose_half(NoLock{}); }

TYPED_TEST(Mutants, OfHtmThatAbortsWithoutUndoing) {
  mutants::AbortsWithoutUndoing broken;
  const AuditReport report = audit<TypeParam>(broken, {.threads = 1, .updates = 50, .elements = 20});
  EXPECT_EQ(report.tally.doubled, report.expected);
}

TYPED_TEST(Mutants, OfHtmThatFallsBackToNothing) {
  mutants::FallsBackToNothing broken;
  const AuditReport report = audit<TypeParam>(broken, {.threads = 4, .updates = 50, .elements = 20});
  EXPECT_EQ(report.tally.lost, report.expected);
}

TYPED_TEST(Mutants, OfTheBordersOfChunks) {
  const AuditPlan plan{.threads = 4, .updates = 100, .elements = 1000};
  mutants::WrongBorder far{.chunk = 300, .error = 1}, near{.chunk = 300, .error = -1};
  const AuditReport twice = audit<TypeParam>(far, plan), never = audit<TypeParam>(near, plan);
  EXPECT_EQ(twice.tally.doubled, 3 * 4 * 100);  // elements 300, 600 and 900
  EXPECT_EQ(twice.tally.lost + twice.tally.corrupt, 0);
  EXPECT_EQ(never.tally.lost, 3 * 4 * 100);  // elements 299, 599 and 899
  EXPECT_EQ(never.tally.doubled + never.tally.corrupt, 0);
}

TYPED_TEST(Mutants, OfKernels) {
  // 101 is no multiple of a factor of the code, so a wrong unit always counts as corrupt.
  const AuditPlan plan{.threads = 4, .updates = 101, .elements = 1001};
  mutants::WithKernel<mutants::SkipsTheLast> last;
  mutants::WithKernel<mutants::SkipsTheFirst> first;
  mutants::WithKernel<mutants::RestTwice> rest;
  mutants::WithKernel<mutants::OffByOne> off;
  EXPECT_EQ(audit<TypeParam>(last, plan).tally.lost, 4 * 101);
  EXPECT_EQ(audit<TypeParam>(first, plan).tally.lost, 4 * 101);
  EXPECT_EQ(audit<TypeParam>(rest, plan).tally.doubled, 4 * 101 * 8);
  EXPECT_EQ(audit<TypeParam>(off, plan).tally.corrupt, 1001);
}

// A correct strategy survives the same schedule: it keeps the threads apart, so they never meet. Only
// strategies without parameters are tried; a transaction could not undo a meeting.
TYPED_TEST(Mutants, AreWhatOurStrategiesAreNot) {
  std::vector<std::string_view> tried;
  const auto survives = [&]<class S>(std::type_identity<S>) {
    S strategy;
    EXPECT_TRUE(audit_in_step<TypeParam>(strategy, std::chrono::milliseconds(200)).clean()) << S::info.name;
    tried.push_back(S::info.name);
  };
  [&]<class... S>(std::type_identity<std::tuple<S...>>) {
    (survives(std::type_identity<S>{}), ...);
  }(std::type_identity<std::tuple<Lock, LockPthread, Spin, SpinThenMutex, Leashed>>());

  for (const Listed& listed : listed_strategies()) {
    if (!listed.info.parameters.empty() || listed.info.updates < Consistency::tensor) continue;
    EXPECT_TRUE(std::ranges::count(tried, listed.info.name)) << listed.info.name << " is not tried";
  }
}

}  // namespace
}  // namespace tmflow
