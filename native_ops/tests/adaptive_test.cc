// adaptive: what it chooses, and that two of its ways are never in use at the same time.
#include "tmflow/strategies/adaptive.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "in_step.hpp"
#include "repeated.hpp"
#include "tmflow/adaptive/chooser.hpp"
#include "tmflow/adaptive/gate.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/strategies/lock_pthread.hpp"
#include "tmflow/strategies/spin.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow::adaptive {
namespace {

std::size_t always_first(int) { return 0; }

// Looks at `chooser` for `windows` windows of a millisecond, in which an update by way w takes us[w].
double share_of_trials(Chooser& chooser, int windows, const std::vector<double>& us, std::size_t best) {
  int other = 0;
  for (int i = 0; i < windows; ++i) {
    const double own = us[chooser.now()];
    other += chooser.now() != best;
    chooser.look({.seconds = 1e-3, .updates = static_cast<std::int64_t>(1e3 / own), .threads = 2},
                 always_first);
  }
  return static_cast<double>(other) / windows;
}

TEST(Chooser, GuessesForAsManyThreadsAsThereAre) {
  const auto guess = [](int threads) { return static_cast<std::size_t>(threads); };
  const auto seen = [](int threads) { return Seen{.seconds = 1, .updates = 100, .threads = threads}; };
  Chooser chooser(5);
  EXPECT_EQ(chooser.look(seen(1), guess), 1U);
  EXPECT_EQ(chooser.look(seen(3), guess), 1U);
  EXPECT_EQ(chooser.look(seen(3), guess), 3U);
  EXPECT_EQ(chooser.threads(), 3);
  EXPECT_EQ(chooser.look(seen(4), guess), 3U);
  EXPECT_EQ(chooser.look(seen(2), guess), 3U);
  EXPECT_EQ(chooser.look(seen(2), guess), 2U);
}

// Now and then a thread loses its processor, and now and then another one appears. During that time an update
// seems slow; a chooser that learnt from it would consider every other way faster.
TEST(Chooser, ForgetsNothingWhereAnotherNumberOfThreadsIsSeenOnce) {
  Chooser chooser(3);
  const std::vector<double> us{3, 2, 1};
  share_of_trials(chooser, 400, us, 0);
  ASSERT_EQ(chooser.now(), 2U);
  int other = 0;
  constexpr int kWindows = 2000;
  for (int i = 0; i < kWindows; ++i) {
    const int threads = std::array{1, 2, 3, 2}[static_cast<std::size_t>(i % 4)];
    const double own = threads == 2 ? us[chooser.now()] : 100;
    other += chooser.now() != 2;
    chooser.look({.seconds = 1e-3, .updates = static_cast<std::int64_t>(1e3 / own), .threads = threads},
                 always_first);
    ASSERT_EQ(chooser.threads(), 2);
  }
  EXPECT_LE(other, 1.1 * Chooser::kShareOfTrials * kWindows);
}

TEST(Chooser, FindsTheFastestWayAndStays) {
  Chooser chooser(3);
  share_of_trials(chooser, 400, {3, 2, 1}, 0);
  EXPECT_EQ(chooser.now(), 2U);
  EXPECT_LE(share_of_trials(chooser, 1000, {3, 2, 1}, 2), 1.1 * Chooser::kShareOfTrials);
}

TEST(Chooser, TriesLittleWhereItsGuessWasRight) {
  Chooser chooser(3);
  const double share = share_of_trials(chooser, 10'000, {1, 100, 100}, 0);
  EXPECT_LE(share, 1.1 * Chooser::kShareOfTrials);
  EXPECT_GT(share, 0);
}

TEST(Chooser, ALittleFasterIsNotFaster) {
  Chooser chooser(2);
  share_of_trials(chooser, 1000, {1, 0.97}, 0);
  EXPECT_EQ(chooser.now(), 0U);
}

TEST(Chooser, WhatWasSlowOnceMayBecomeFast) {
  Chooser chooser(2);
  share_of_trials(chooser, 1000, {1, 2}, 0);
  EXPECT_EQ(chooser.now(), 0U);
  share_of_trials(chooser, 1000, {1, 0.5}, 0);
  EXPECT_EQ(chooser.now(), 1U);
}

// The looking thread may have been counted by the previous look, and have lost its processor since.
TEST(Chooser, ATimeWithoutUpdatesTeachesNothing) {
  Chooser chooser(3);
  share_of_trials(chooser, 400, {3, 2, 1}, 0);
  ASSERT_EQ(chooser.now(), 2U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(chooser.look({.seconds = 1, .updates = 0, .threads = 0}, always_first), 2U);
  }
  EXPECT_LE(share_of_trials(chooser, 1000, {3, 2, 1}, 2), 1.1 * Chooser::kShareOfTrials);
}

TEST(Chooser, OneWayIsNoChoice) {
  Chooser chooser(1);
  EXPECT_EQ(share_of_trials(chooser, 1000, {1}, 0), 0);
}

TEST(ThreadPlace, LivingThreadsHavePlacesOfTheirOwnUntilThereAreTooMany) {
  constexpr int kThreads = 70;
  std::vector<std::size_t> places(kThreads);
  std::barrier all(kThreads);
  run_at_once(
      kThreads,
      [&](int thread) {
        places[static_cast<std::size_t>(thread)] = ThreadPlace::own();
        all.arrive_and_wait();
      },
      [&] { all.arrive_and_drop(); });
  const auto shared = std::ranges::count_if(places, ThreadPlace::is_shared);
  EXPECT_EQ(std::set(places.begin(), places.end()).size(), kThreads - shared + 1);
  EXPECT_GE(shared, kThreads - static_cast<int>(kPlaces) + 1);
}

TEST(ThreadPlace, ThatOfAThreadThatEndedIsFreeAgain) {
  std::set<std::size_t> places;
  for (int i = 0; i < 200; ++i) std::jthread([&] { places.insert(ThreadPlace::own()); }).join();
  EXPECT_EQ(places.size(), 1U);
  EXPECT_FALSE(ThreadPlace::is_shared(*places.begin()));
}

TEST(Gate, NoTwoWaysAtOnce) {
  constexpr int kThreads = 4, kWays = 3, kPassages = 3000;
  Gate<> gate(0);
  std::array<std::atomic<int>, kWays> inside{};
  std::atomic<int> together{0}, led{0}, through{0};
  run_at_once(
      kThreads,
      [&](int thread) {
        for (int i = 0; i < kPassages; ++i) {
          {
            Gate<>::Passage passage(gate);
            const auto way = static_cast<std::size_t>(passage.way);
            ++inside[way];
            for (std::size_t other = 0; other < kWays; ++other)
              together += other != way && inside[other] != 0;
            --inside[way];
            passage.counted();
          }
          if (thread == 0 && i % 10 == 0) gate.lead(++led % kWays);
        }
        ++through;
      },
      [] {});
  EXPECT_EQ(together, 0);
  EXPECT_EQ(through, kThreads);
  std::int64_t passed = 0;
  for (const auto& place : gate.traffic()) passed += place.updates;
  EXPECT_EQ(passed, kThreads * kPassages);
}

// A thread inside makes the leader wait, and the leader keeps others out: a gate that does not wait gets this
// schedule wrong.
TEST(Gate, WhoLeadsWaitsForWhoIsInside) {
  Gate<> gate(0);
  std::atomic<bool> has_led{false};
  int way = 0;
  std::optional<Gate<>::Passage> inside(gate);
  ASSERT_EQ(inside->way, 0);
  std::jthread leader([&] {
    gate.lead(1);
    has_led = true;
  });
  std::jthread late([&] {
    while (true) {  // until it finds a closed or a changed gate
      const Gate<>::Passage passage(gate);
      if (passage.way == 0) continue;
      way = passage.way;
      return;
    }
  });
  EXPECT_FALSE(has_led);
  inside.reset();
  leader.join();
  late.join();
  EXPECT_EQ(way, 1);
}

// Leads to another strategy every few updates; the consistency holds only if no thread is left behind.
class Restless {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    {
      const Gate<>::Passage passage(gate_);
      passage.way == 0 ? mutex_.apply(region, update, stats) : spin_.apply(region, update, stats);
    }
    if (!leading_.try_lock()) return;
    gate_.lead(++turns_ / 3 % 2);
    leading_.unlock();
  }

 private:
  LockPthread mutex_;
  Spin spin_;
  SpinLock leading_;
  int turns_ = 0;
  Gate<> gate_{0};
};

// The same without a gate: the next thread takes another way immediately.
class Impatient {
 public:
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    turns_++ % 2 == 0 ? mutex_.apply(region, update, stats) : spin_.apply(region, update, stats);
  }

 private:
  LockPthread mutex_;
  Spin spin_;
  std::atomic<int> turns_{0};
};

constexpr AuditPlan kPlan{.threads = 4, .updates = 4000, .elements = 500};

TEST(Gate, ChangingTheStrategyLosesNothing) {
  Restless strategy;
  EXPECT_TRUE(audit<double>(strategy, kPlan).clean());
}

TEST(Gate, WithoutItAnUpdateIsLost) {
  Impatient strategy;
  const AuditReport report = seeded::audit_in_step<double>(strategy);
  EXPECT_EQ(2 * report.tally.lost, report.expected);
}

TEST(Adaptive, KeepsConsistencyWhateverItChooses) {
  for (const std::string promise : {"tensor", "block"}) {
    const std::vector<std::string> given{"promise=" + promise};
    for (const std::int64_t elements : {1, 100, 20'000}) {
      const auto strategy = make_strategy<ArrayRegion<double>>("adaptive", given);
      const auto report =
          audit<double>(*strategy, {.threads = 4, .updates = repeated(2000), .elements = elements});
      EXPECT_TRUE(report.clean()) << promise << " " << elements;
      EXPECT_EQ(report.counted, report.made);
    }
  }
}

// The counts could not say whose they are. For two threads that update 20,000 elements, the guess is that
// transactions are fastest.
TEST(Adaptive, CountsNoTransactions) {
  using Region = ArrayRegion<float>;
  std::vector<float> variable(20'000), ones(variable.size(), 1);
  Region region(variable);
  const auto strategy = make_strategy<Region>("adaptive");
  std::array<ThreadStats, 2> stats;
  std::barrier together(2);
  const auto work = [&](int thread) {
    ThreadStats& own = stats[static_cast<std::size_t>(thread)];
    for (int i = 0; i < 500; ++i) {
      together.arrive_and_wait();
      strategy->apply(region, {.alpha = -1, .delta = ones}, own);
    }
  };
  run_at_once(2, work, [&] { together.arrive_and_drop(); });
  for (const ThreadStats& own : stats) {
    EXPECT_EQ(own.updates(), 500);
    EXPECT_EQ(own.commits(), 0);
    EXPECT_TRUE(own.aborts().empty());
  }
}

}  // namespace
}  // namespace tmflow::adaptive
