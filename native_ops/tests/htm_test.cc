// Elision: attempts, budget and fallback under scripted providers; and, on machines that have them, whether
// real transactions keep every update.
#include "tmflow/strategies/htm.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "refused.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/htm/hardware_attempt.hpp"

namespace tmflow::htm {
namespace {

// A provider that aborts with the given statuses, one after another, and then commits.
struct Scripted {
  static inline std::vector<Ended> script;
  static inline std::size_t next = 0;

  static void follow(std::vector<Ended> statuses) {
    script = std::move(statuses);
    next = 0;
  }

  template <class Taken, class Body>
  static bool attempt(const Taken& taken, const Body& body, Ended& ended) {
    EXPECT_FALSE(taken());
    if (next < script.size()) {
      ended = script[next++];
      return false;
    }
    body();
    return true;
  }
};

constexpr Ended kPassing{.status = 6, .hopeless = false};
constexpr Ended kHopeless{.status = 8, .hopeless = true};

struct Counts {
  std::int64_t attempts, commits, fallbacks;
  bool operator==(const Counts&) const = default;
};

// Elides one critical section; it must have run exactly once, either inside or under the mutex.
Counts elide_once(std::vector<Ended> script, Budget budget) {
  Scripted::follow(std::move(script));
  std::mutex mutex;
  ThreadStats stats;
  int inside = 0, under = 0;
  elide(
      Scripted(), elidable(mutex), budget, stats, [&] { ++inside; },
      [&] {
        EXPECT_FALSE(mutex.try_lock());
        ++under;
      });
  EXPECT_EQ(inside, stats.commits());
  EXPECT_EQ(under, stats.fallbacks());
  EXPECT_EQ(inside + under, 1);
  EXPECT_TRUE(mutex.try_lock());
  mutex.unlock();
  EXPECT_EQ(stats.counted(Contention::retries, attempts(stats) - stats.commits()), 1);
  return {attempts(stats), stats.commits(), stats.fallbacks()};
}

TEST(Elision, CommitsAtOnce) { EXPECT_EQ(elide_once({}, {5, Spending::study_tsx}), (Counts{1, 1, 0})); }

TEST(Elision, RetriesWithinTheBudget) {
  EXPECT_EQ(elide_once({kPassing, kPassing}, {5, Spending::study_tsx}), (Counts{3, 1, 0}));
}

TEST(Elision, TakesTheMutexWhenTheBudgetIsSpent) {
  const std::vector<Ended> passing(9, kPassing), hopeless(9, kHopeless);
  EXPECT_EQ(elide_once(passing, {0, Spending::study_tsx}), (Counts{0, 0, 1}));
  EXPECT_EQ(elide_once(passing, {5, Spending::study_tsx}), (Counts{5, 0, 1}));
  EXPECT_EQ(elide_once(hopeless, {5, Spending::study_tsx}), (Counts{5, 0, 1}));
  EXPECT_EQ(elide_once(passing, {5, Spending::study_power}), (Counts{5, 0, 1}));
  EXPECT_EQ(elide_once(hopeless, {5, Spending::study_power}), (Counts{3, 0, 1}));
  EXPECT_EQ(elide_once(passing, {5, Spending::tuned}), (Counts{5, 0, 1}));
  EXPECT_EQ(elide_once(hopeless, {5, Spending::tuned}), (Counts{1, 0, 1}));
}

// A mutex that becomes free while it is waited for.
struct FreeAfter {
  mutable int waits;
  bool taken() const noexcept { return waits > 0; }
  void wait(Turn) const noexcept { --waits; }
  void lock() const {}
  void unlock() const {}
};

// Scripted fails the test if an attempt begins while the mutex is taken.
TEST(Elision, WaitsForTheMutexBeforeEveryAttempt) {
  Scripted::follow({});
  const FreeAfter mutex{.waits = 3};
  ThreadStats stats;
  elide(Scripted(), mutex, {5, Spending::study_tsx}, stats, [] {}, [] {});
  EXPECT_EQ(mutex.waits, 0);
  EXPECT_EQ(stats.commits(), 1);
}

// Instructions that record what is done between them. An abort leaves the attempt, as on a processor.
struct Noted {
  struct Aborted {};
  static inline std::vector<std::string> done;
  static inline bool begins = true;

  static bool begin(Ended& ended) {
    done = {"begin"};
    ended.status = 7;
    return begins;
  }
  [[noreturn]] static void abort_taken() { throw Aborted(); }
  static void end() { done.emplace_back("end"); }

  static bool attempt(bool mutex_is_taken) {
    Ended ended{};
    const auto taken = [&] {
      done.emplace_back("taken?");
      return mutex_is_taken;
    };
    return HardwareAttempt<Noted>::attempt(taken, [] { done.emplace_back("body"); }, ended);
  }
};

TEST(HardwareAttempt, AsksForTheMutexInsideBeforeItDoesAnything) {
  Noted::begins = true;
  EXPECT_TRUE(Noted::attempt(false));
  EXPECT_EQ(Noted::done, (std::vector<std::string>{"begin", "taken?", "body", "end"}));
}

TEST(HardwareAttempt, DoesNothingUnderAMutexThatIsTaken) {
  Noted::begins = true;
  EXPECT_THROW(Noted::attempt(true), Noted::Aborted);
  EXPECT_EQ(Noted::done, (std::vector<std::string>{"begin", "taken?"}));
}

TEST(HardwareAttempt, DoesNothingAfterAnAbort) {
  Noted::begins = false;
  EXPECT_FALSE(Noted::attempt(false));
  EXPECT_EQ(Noted::done, std::vector<std::string>{"begin"});
}

TEST(Elision, TheWordOfAPthreadMutexShowsItsState) { EXPECT_TRUE(word_shows_state<std::mutex>()); }

TEST(Parameters, AreCheckedByNameAndValue) {
  const auto fails = [](const std::vector<std::string>& given) { return refusal("htm", given); };
  EXPECT_EQ(fails({"budget=0", "chunk=1000000000", "spending=tuned"}), "");
  EXPECT_EQ(fails({"budget=-1"}), "budget of strategy 'htm' is '-1'; allowed: 0 to 1000000");
  EXPECT_EQ(fails({"budget=5x"}), "budget of strategy 'htm' is '5x'; allowed: 0 to 1000000");
  EXPECT_EQ(fails({"spending=study"}),
            "spending of strategy 'htm' is 'study'; allowed: study_tsx, study_power, tuned");
  EXPECT_EQ(fails({"spending="}), "spending of strategy 'htm' is ''; allowed: study_tsx, study_power, tuned");
  EXPECT_EQ(fails({"bugdet=5"}),
            "strategy 'htm' has no parameter 'bugdet'; it has: provider, machine, budget, spending, "
            "subscription, chunk, "
            "kernel, optimisation");
  EXPECT_EQ(fails({"budget=5", "budget=5"}), "parameter 'budget' is given twice");
}

// The tests below use real transactions; a machine without them skips the tests.
class RealTransactions : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Htm::why_not()) GTEST_SKIP() << *reason;
  }
};

TEST_F(RealTransactions, OfAShortUpdateCommitMostly) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own accesses may abort them";
#endif
  std::vector<double> variable(64), delta(64, 1);
  ArrayRegion<double> region(variable);
  ThreadStats stats;
  const auto htm = make_strategy<ArrayRegion<double>>("htm");
  for (int u = 0; u < 1000; ++u) htm->apply(region, {.alpha = -1, .delta = delta}, stats);
  EXPECT_EQ(variable[63], 1000);
  EXPECT_GT(stats.commits(), 900);
}

TEST_F(RealTransactions, OfAnUpdateLargerThanTheCacheFallBack) {
  std::vector<float> variable(1 << 20), delta(1 << 20, 1);
  ArrayRegion<float> region(variable);
  ThreadStats stats;
  const auto htm = make_strategy<ArrayRegion<float>>("htm");
  htm->apply(region, {.alpha = -1, .delta = delta}, stats);
  EXPECT_EQ(variable.back(), 1);
  EXPECT_EQ(stats.commits(), 0);
  EXPECT_EQ(stats.fallbacks(), 1);
  EXPECT_EQ(attempts(stats), 5);
}

TEST_F(RealTransactions, ChunksAreTransactionsOfTheirOwn) {
  std::vector<float> variable(1000), delta(1000, 1);
  ArrayRegion<float> region(variable);
  ThreadStats stats;
  const std::vector<std::string> chunked{"chunk=300"};
  make_strategy<ArrayRegion<float>>("htm", chunked)->apply(region, {.alpha = -1, .delta = delta}, stats);
  EXPECT_EQ(variable, delta);
  EXPECT_EQ(stats.updates(), 1);
  EXPECT_EQ(stats.commits() + stats.fallbacks(), 4);
}

}  // namespace
}  // namespace tmflow::htm
