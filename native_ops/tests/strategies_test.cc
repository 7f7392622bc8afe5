// The strategies and their registry: when each takes the mutex, and what is registered under which name.
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"

namespace tmflow {
namespace {

struct WatchedMutex;

}  // namespace

template <>
struct htm::TakenBits<WatchedMutex> {
  static constexpr std::uint32_t value = 1;
};

namespace {

// A mutex for one thread that records how it is used.
struct WatchedMutex {
  void lock() {
    EXPECT_FALSE(held);
    held = 1;
    ++times;
  }
  bool try_lock() {
    if (held != 0) return false;
    lock();
    return true;
  }
  void unlock() {
    EXPECT_TRUE(held);
    held = 0;
  }

  std::uint32_t held = 0;
  int times = 0;
};

// A region that checks how its memory is requested, and may have none.
class WatchedRegion final : public ForeignRegion<float> {
 public:
  WatchedRegion() : ForeignRegion<float>(ForeignMutex(watched)) {}

  std::span<float> memory(Holding holding) override {
    EXPECT_EQ(holding == Holding::mutex, watched.held != 0);
    if (!has_memory) throw std::runtime_error("no memory");
    return values;
  }

  std::array<float, 3> values{1, 2, 3};
  bool has_memory = true;
  WatchedMutex watched;
};

const std::vector<float> kDelta{1, 1, 2};
const GradientDescent<float> kUpdate{.alpha = 0.5f, .delta = kDelta};
const std::array<float, 3> kUpdated{0.5f, 1.5f, 2.0f};

TEST(Lock, HoldsTheVariablesOwnMutex) {
  WatchedRegion region;
  ThreadStats stats;
  Lock().apply(region, kUpdate, stats);
  EXPECT_EQ(region.values, kUpdated);
  EXPECT_EQ(region.watched.times, 1);
  EXPECT_FALSE(region.watched.held);
  EXPECT_EQ(stats.updates(), 1);
}

TEST(Lock, LetsGoOfTheMutexIfThereIsNoMemory) {
  WatchedRegion region;
  region.has_memory = false;
  ThreadStats stats;
  EXPECT_THROW(Lock().apply(region, kUpdate, stats), std::runtime_error);
  EXPECT_FALSE(region.watched.held);
  EXPECT_EQ(stats.updates(), 0);
}

TEST(Lock, HoldsTheMutexForEachChunk) {
  WatchedRegion region;
  ThreadStats stats;
  const auto strategy = make_strategy<ForeignRegion<float>>("lock", std::vector<std::string>{"chunk=2"});
  strategy->apply(region, kUpdate, stats);
  EXPECT_EQ(region.values, kUpdated);
  EXPECT_EQ(region.watched.times, 2);
  EXPECT_FALSE(region.watched.held);
  EXPECT_EQ(stats.updates(), 1);
}

TEST(NoLock, TakesNoMutex) {
  WatchedRegion region;
  ThreadStats stats;
  NoLock().apply(region, kUpdate, stats);
  EXPECT_EQ(region.values, kUpdated);
  EXPECT_EQ(region.watched.times, 0);
  EXPECT_EQ(stats.updates(), 1);
}

TEST(Registry, EveryStrategyUpdatesUnderItsName) {
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process) continue;
    WatchedRegion region;
    ThreadStats stats;
    const auto strategy = make_strategy<ForeignRegion<float>>(listed.info.name);
    strategy->apply(region, kUpdate, stats);
    strategy->settle(region);
    EXPECT_EQ(region.values, kUpdated) << listed.info.name;
    EXPECT_EQ(stats.updates(), 1) << listed.info.name;
  }
}

TEST(Registry, AnUnknownNameIsAnsweredWithTheValidOnes) {
  EXPECT_EQ(strategy_names("'"),
            "'lock', 'nolock', 'lock_pthread', 'spin', 'spin_then_mutex', 'htm', 'htm_if_fits', 'itm', "
            "'stm', 'tle', 'striped', 'combining', 'atomic', 'block_stm', 'leashed', 'local_steps', "
            "'adaptive'");
  try {
    make_strategy<ForeignRegion<float>>("lok");
    FAIL() << "made a strategy that does not exist";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), ("unknown strategy 'lok'; valid: " + strategy_names()).c_str());
  }
}

template <class T>
class Kernel : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Kernel, Types);

TYPED_TEST(Kernel, UpdatesItsRangeAndNothingElse) {
  for (const std::size_t n : {0, 1, 2, 15, 16, 17, 63, 1000}) {
    std::vector<TypeParam> variable(n + 2, 1), delta(n + 2);
    for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<TypeParam>(i) / 3;
    const GradientDescent<TypeParam> update{.alpha = TypeParam{0.1}, .delta = delta};
    update(variable, 1, n);
    for (std::size_t i = 0; i < variable.size(); ++i) {
      const volatile TypeParam product = TypeParam{0.1} * delta[i];  // rounded separately, never fused
      EXPECT_EQ(variable[i], i == 0 || i == n + 1 ? 1 : 1 - product) << i << " of " << n;
    }
  }
}

}  // namespace
}  // namespace tmflow
