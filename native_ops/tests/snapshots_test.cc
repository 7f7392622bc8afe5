// block_stm, leashed and atomic as strategies, and their mutants: what a reader gets, and what a lost race
// costs. Every schedule is forced.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "interrupted.hpp"
#include "mutants_ranges.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/leashed.hpp"

namespace tmflow {
namespace {

using seeded::in_the_middle;

constexpr std::size_t kElements = 10;

// A variable to which every update adds 1 in each element: all elements are equal unless updates are mixed.
template <class S>
class Bench {
 public:
  template <class... Arguments>
  explicit Bench(Arguments&&... arguments) : strategy(std::forward<Arguments>(arguments)...) {}

  void update(Kernel<float> kernel = find_kernel<float>()) {
    strategy.apply(region, {.alpha = -1, .delta = ones, .kernel = kernel}, stats);
  }
  std::vector<float> read(Copy<float> copy = seeded::interrupted_copy<float>) {
    std::vector<float> got(kElements);
    strategy.read(region, {.into = got, .copy = copy}, stats);
    return got;
  }

  std::vector<float> values = std::vector<float>(kElements);
  const std::vector<float> ones = std::vector<float>(kElements, 1);
  ArrayRegion<float> region{values};
  ThreadStats stats;
  S strategy;
};

std::vector<float> all(float value) { return std::vector<float>(kElements, value); }

// The first half is 0, the second is 1.
const std::vector<float> kMixed{0, 0, 0, 0, 0, 1, 1, 1, 1, 1};

// What a reader gets if an update happens in the middle of its copy.
template <class Policy>
std::vector<float> read_beside_an_update() {
  Bench<BasicBlockStm<std::atomic, Policy>> bench(4);
  in_the_middle = [&] { bench.update(); };
  return bench.read();
}

TEST(BlockStm, AReaderGetsNoMixture) { EXPECT_EQ(read_beside_an_update<ranges::Sound>(), all(1)); }
TEST(BlockStm, AReaderThatLooksOnceDoes) { EXPECT_EQ(read_beside_an_update<mutants::LooksOnce>(), kMixed); }
TEST(BlockStm, AReaderThatLooksForOwnersOnlyDoes) {
  EXPECT_EQ(read_beside_an_update<mutants::LooksForOwnersOnly>(), kMixed);
}

TEST(BlockStm, AReaderThatTakesNoPartDoes) {
  Bench<BlockStm> bench(4);
  std::vector<float> got(kElements);
  in_the_middle = [&] { bench.update(); };
  seeded::interrupted_copy(bench.values.data(), got.data(), kElements);
  EXPECT_EQ(got, kMixed);
}

TEST(BlockStm, AReaderTakesTheLocksWhenItHasLostItsPatience) {
  Bench<BlockStm> bench(4);
  int updates = 0;
  std::function<void()> disturb = [&] {
    bench.update();
    if (++updates < ranges::kCopies) in_the_middle = disturb;
  };
  in_the_middle = disturb;
  EXPECT_EQ(bench.read(), all(ranges::kCopies));
  EXPECT_EQ(updates, ranges::kCopies);
  EXPECT_EQ(bench.stats.commits(), ranges::kCopies);  // the reading is not counted
}

TEST(BlockStm, AnUpdateIsTimedWhereLocksAre) {
  Bench<BlockStm> bench(4);
  bench.stats.time_locks(true);
  bench.update();
  EXPECT_GT(bench.stats.held_ns(), 0);
}

TEST(BlockStm, AnUnknownManagerIsNone) { EXPECT_THROW(BlockStm(4, "dealy"), std::invalid_argument); }

template <class T>
class RangesMutants : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(RangesMutants, Types);

TYPED_TEST(RangesMutants, OfBlockStmLoseHalf) {
  BasicBlockStm<std::atomic, mutants::LocksNothing> unlocked(4);
  BasicBlockStm<std::atomic, mutants::ReleasesEarly> early(4);
  EXPECT_EQ(seeded::audit_in_step<TypeParam>(unlocked).lost_fraction(), 0.5);
  EXPECT_EQ(seeded::audit_in_step<TypeParam>(early).lost_fraction(), 0.5);
}

TYPED_TEST(RangesMutants, AreWhatBlockStmIsNot) {
  for (const auto* manager : {"suicide", "delay", "backoff", "aggressive", "timestamp"}) {
    BlockStm strategy(4, manager);
    EXPECT_TRUE(seeded::audit_in_step<TypeParam>(strategy, std::chrono::milliseconds(50)).clean()) << manager;
  }
}

TYPED_TEST(RangesMutants, OfAtomicLosesHalf) {
  BasicAtomic<mutants::StoredRef> stored;
  EXPECT_EQ(seeded::audit_in_step<TypeParam>(stored).lost_fraction(), 0.5);
  BasicAtomic<mutants::MeetingRef> sound;
  EXPECT_TRUE(seeded::audit_in_step<TypeParam>(sound, std::chrono::milliseconds(50)).clean());
}

TYPED_TEST(RangesMutants, OfLeashedLosesHalf) {
  BasicLeashed<std::atomic, mutants::PublishesAnyway> anyway;
  EXPECT_EQ(seeded::audit_in_step<TypeParam>(anyway).lost_fraction(), 0.5);
}

TEST(Leashed, ALostRaceRestartsFromTheWinningVersion) {
  Bench<Leashed> bench;
  in_the_middle = [&] { bench.update(); };
  bench.update(seeded::interrupted_kernel<float>);
  EXPECT_EQ(bench.read(), all(2));
  EXPECT_EQ(bench.stats.updates(), 2);
  EXPECT_EQ(bench.stats.counted(Contention::failed_publications, 0), 1);
  EXPECT_EQ(bench.stats.counted(Contention::failed_publications, 1), 1);
}

// What a reader gets if several updates happen in the middle of its copy: for the second one, the copy that
// is being read is no longer the newest.
template <class Policy>
std::vector<float> read_beside_two_updates() {
  Bench<BasicLeashed<std::atomic, Policy>> bench;
  bench.read();
  in_the_middle = [&] { bench.update(), bench.update(), bench.update(); };
  return bench.read();
}

TEST(Leashed, WhatIsReadIsNotWritten) { EXPECT_EQ(read_beside_two_updates<publish::Sound>(), all(0)); }
TEST(Leashed, ItWouldBeIfAHeldCopyWereUsedAgain) {
  EXPECT_NE(read_beside_two_updates<mutants::WritesWhatIsHeld>(), all(0));
}

TEST(Leashed, TheMemoryIsAsItWasUntilItIsSettled) {
  Bench<Leashed> bench;
  std::ranges::fill(bench.values, 7);
  bench.update();
  EXPECT_EQ(bench.values, all(7));
  EXPECT_EQ(bench.read(), all(8));
  bench.strategy.settle(bench.region);
  EXPECT_EQ(bench.values, all(8));
  bench.update();
  bench.strategy.settle(bench.region);
  EXPECT_EQ(bench.values, all(9));
}

TEST(Leashed, AnAssignmentIsHeardAfterARestart) {
  Bench<Leashed> bench;
  bench.update();
  std::ranges::fill(bench.values, 100);
  EXPECT_EQ(bench.read(), all(1));
  bench.strategy.restart(bench.region);
  EXPECT_EQ(bench.read(), all(100));
  bench.update();
  EXPECT_EQ(bench.read(), all(101));
}

TEST(Leashed, ARegionOfAnotherSizeIsRefusedUntilARestart) {
  Bench<Leashed> bench;
  bench.update();
  std::vector<float> other(3, 5);
  ArrayRegion<float> region{other};
  const std::vector<float> ones(3, 1);
  const GradientDescent<float> update{.alpha = -1, .delta = ones};
  EXPECT_THROW(bench.strategy.apply(region, update, bench.stats), std::invalid_argument);
  bench.strategy.restart(region);
  bench.strategy.apply(region, update, bench.stats);
  bench.strategy.settle(region);
  EXPECT_EQ(other, std::vector<float>(3, 6));
}

TEST(Versions, OneThreadNeedsTwoCopies) {
  publish::Versions<std::atomic> versions;
  const auto* const first = &versions.claim(8);
  const auto* const second = &versions.claim(8);
  EXPECT_NE(first, second);
  publish::Versions<std::atomic> alternating;
  ASSERT_TRUE(alternating.publish(nullptr, alternating.claim(8)));
  const auto* const even = alternating.newest();
  for (int i = 0; i < 100; ++i) {
    auto& from = *alternating.hold_newest();
    auto& next = alternating.claim(8);
    ASSERT_TRUE(alternating.publish(&from, next));
    EXPECT_EQ(alternating.newest() == even, i % 2 == 1);
  }
}

// Interrupts a thread before it counts itself among the holders of the version that it found.
template <class T>
struct Interrupted : std::atomic<T> {
  using std::atomic<T>::atomic;
  T fetch_add(T n, std::memory_order order) noexcept {
    seeded::interrupt();
    return std::atomic<T>::fetch_add(n, order);
  }
};

// Whether a reader holds the newest version if the version that it found is being rewritten before it counts
// itself.
template <class Policy>
bool holds_the_newest() {
  publish::Versions<Interrupted, Policy> versions;
  EXPECT_TRUE(versions.publish(nullptr, versions.claim(8)));
  in_the_middle = [&] {
    auto& from = *versions.hold_newest();
    EXPECT_TRUE(versions.publish(&from, versions.claim(8)));
    versions.claim(8);
  };
  return versions.hold_newest() == versions.newest();
}

TEST(Versions, AReaderThatIsLateLooksAgain) { EXPECT_TRUE(holds_the_newest<publish::Sound>()); }
TEST(Versions, ElseItReadsWhatIsBeingWritten) { EXPECT_FALSE(holds_the_newest<mutants::TakesWhatItFound>()); }

// Two writing and two reading threads: every copy is of one version, and versions never go back.
template <class S>
void no_reader_sees_a_mixture(S&& strategy) {
  constexpr int kUpdates = 20000;
  std::vector<float> values(kElements);
  const std::vector<float> ones(kElements, 1);
  ArrayRegion<float> region{values};
  std::vector<ThreadStats> stats(4);
  std::atomic<int> writing{2};
  const auto work = [&](int thread) {
    ThreadStats& own = stats[static_cast<std::size_t>(thread)];
    if (thread < 2) {
      const GradientDescent<float> update{
          .alpha = -1, .delta = ones, .kernel = seeded::interrupted_kernel<float>};
      for (int i = 0; i < kUpdates; ++i) strategy.apply(region, update, own);
      --writing;
      return;
    }
    float last = 0;
    std::vector<float> got(kElements);
    while (writing > 0) {
      strategy.read(region, Reading<float>{.into = got, .copy = seeded::interrupted_copy<float>}, own);
      EXPECT_EQ(got, std::vector<float>(kElements, got[0]));
      EXPECT_GE(got[0], last);
      last = got[0];
    }
  };
  in_the_middle = nullptr;
  run_at_once(4, work, [] {});
  std::vector<float> got(kElements);
  strategy.read(region, Reading<float>{.into = got}, stats[0]);
  EXPECT_EQ(got, std::vector<float>(kElements, 2 * kUpdates));
}

TEST(BlockStm, NoReaderSeesAMixture) {
  for (const auto* manager : {"delay", "backoff", "timestamp"})
    no_reader_sees_a_mixture(BlockStm(4, manager));
}
TEST(Leashed, NoReaderSeesAMixture) { no_reader_sees_a_mixture(Leashed()); }

}  // namespace
}  // namespace tmflow
