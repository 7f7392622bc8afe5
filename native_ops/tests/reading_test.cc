// Reads through a strategy: never torn where the strategy guarantees that, during any updates.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "in_step.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/read_bench.hpp"
#include "tmflow/strategies/striped.hpp"

namespace tmflow {
namespace {

using Floats = ArrayRegion<float>;

// The strategies that run here and whose own reads have at least this consistency.
std::vector<Listed> reading_strategies(Consistency consistency) {
  std::vector<Listed> found;
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process) continue;
    if (listed.info.snapshots >= consistency) found.push_back(listed);
  }
  return found;
}

TEST(Reading, CopiesWhatTheLastUpdateLeft) {
  for (const Listed& listed : reading_strategies(Consistency::block)) {
    std::vector<float> variable{1, 2, 3}, delta{1, 1, 2}, copy(3);
    Floats region(variable);
    ThreadStats stats;
    const auto strategy = make_strategy<Floats>(listed.info.name);
    strategy->read(region, {.into = copy}, stats);
    EXPECT_EQ(copy, (std::vector<float>{1, 2, 3})) << listed.info.name;
    strategy->apply(region, {.alpha = 0.5f, .delta = delta}, stats);
    strategy->read(region, {.into = copy}, stats);
    EXPECT_EQ(copy, (std::vector<float>{0.5f, 1.5f, 2.0f})) << listed.info.name;
    EXPECT_EQ(stats.updates(), 1) << listed.info.name;
  }
}

TEST(Reading, IsRefusedWithoutConsistentReads) {
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process || listed.info.snapshots != Consistency::none) continue;
    std::vector<float> variable{1}, copy(1);
    Floats region(variable);
    ThreadStats stats;
    const auto strategy = make_strategy<Floats>(listed.info.name);
    EXPECT_THROW(strategy->read(region, {.into = copy}, stats), std::invalid_argument) << listed.info.name;
  }
}

TEST(Reading, IsNeverTornWithTensorConsistency) {
  for (const Listed& listed : reading_strategies(Consistency::tensor)) {
    for (const std::int64_t elements : {2, 1000, 10'000}) {
      const auto strategy = make_strategy<Floats>(listed.info.name);
      const ReadReport report =
          ReadBench(*strategy, {.readers = 2, .writers = 2, .reads = 300, .elements = elements}).run();
      EXPECT_GE(report.checked, 300) << listed.info.name;
      EXPECT_EQ(report.torn, 0) << listed.info.name << " with " << elements;
      EXPECT_GE(report.reads, 300);
      EXPECT_GT(report.seconds, 0);
    }
  }
}

// The same with the shadow, which sees what the elements may not show.
TEST(Reading, LeavesNoTraceInTheShadowEither) {
  constexpr std::size_t kElements = 5000;
  constexpr int kReads = 300;
  for (const Listed& listed : reading_strategies(Consistency::tensor)) {
    if (!listed.in_place()) continue;
    std::vector<float> variable(kElements), ones(kElements, 1.0f);
    Floats region(variable);
    Shadow shadow(kElements, find_kernel<double>());
    const auto strategy = make_strategy<Floats>(listed.info.name);
    std::atomic<bool> over{false};
    std::vector<std::jthread> writers;
    std::atomic<std::int64_t> updates{0};
    for (int writer = 0; writer < 2; ++writer) {
      writers.emplace_back([&] {
        ThreadStats stats;
        do {
          strategy->apply(region, {.alpha = -1, .delta = ones, .shadow = &shadow, .id = Shadow::new_id()},
                          stats);
        } while (!over);
        updates += stats.updates();
      });
    }
    ThreadStats stats;
    std::vector<float> copy(kElements);
    int torn = 0;
    for (int read = 0; read < kReads; ++read) {
      WatchedRead watch(shadow);
      strategy->read(region, {.into = copy, .watch = &watch}, stats);
      torn += watch.torn();
    }
    over = true;
    writers.clear();
    EXPECT_EQ(torn, 0) << listed.info.name;
    EXPECT_EQ(shadow.kept(), updates * static_cast<std::int64_t>(kElements)) << listed.info.name;
  }
}

// The reader has copied the first stripe and holds its lock; now the update changes the second one.
constexpr std::size_t kStripe = 2048;
const float* first_stripe = nullptr;

void copy_then_meet(const float* from, float* to, std::size_t n) noexcept {
  std::copy_n(from, n, to);
  if (from + n != first_stripe + kStripe) return;
  seeded::meeting->wait();  // the update begins
  seeded::meeting->wait();  // and has changed the second stripe
}

void write_then_meet(float* variable, const float* delta, float alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
  if (variable + n == first_stripe + 2 * kStripe) seeded::meeting->wait();
}

TEST(Reading, OfBlocksIsTornBetweenThemAndNeverWithin) {
  std::vector<float> variable(2 * kStripe), ones(variable.size(), 1.0f), copy(variable.size());
  first_stripe = variable.data();
  Floats region(variable);
  Shadow shadow(variable.size(), find_kernel<double>());
  Striped striped(kStripe);
  seeded::Meeting own(std::chrono::seconds(30));
  seeded::meeting = &own;
  constexpr int kReads = 20;
  const std::jthread updating([&] {
    ThreadStats stats;
    for (int i = 0; i < kReads; ++i) {
      own.wait();
      striped.apply(
          region,
          {.alpha = -1, .delta = ones, .kernel = write_then_meet, .shadow = &shadow, .id = Shadow::new_id()},
          stats);
      own.wait();  // so that the next read cannot take the first lock before this update
    }
  });
  ThreadStats stats;
  int torn = 0, unequal = 0;
  std::int64_t torn_parts = 0;
  for (int i = 0; i < kReads; ++i) {
    WatchedRead watch(shadow);
    striped.read(region, {.into = copy, .copy = copy_then_meet, .watch = &watch}, stats);
    own.wait();
    torn += watch.torn();
    torn_parts += watch.torn_parts();
    unequal += copy.front() != copy.back();
  }
  EXPECT_EQ(torn, kReads);
  EXPECT_EQ(unequal, kReads);
  EXPECT_EQ(torn_parts, 0);
}

// Two threads update and one reads, without a forced schedule.
TEST(Reading, OfBlocksIsWholeInEachWithBlockConsistency) {
  for (const Listed& listed : reading_strategies(Consistency::block)) {
    if (!listed.in_place()) continue;
    constexpr std::size_t kElements = 3 * kStripe;
    std::vector<float> variable(kElements), ones(kElements, 1.0f), copy(kElements);
    Floats region(variable);
    Shadow shadow(kElements, find_kernel<double>());
    const auto strategy = make_strategy<Floats>(listed.info.name);
    std::atomic<bool> over{false};
    std::vector<std::jthread> writers;
    for (int writer = 0; writer < 2; ++writer) {
      writers.emplace_back([&] {
        ThreadStats stats;
        while (!over) {
          strategy->apply(region, {.alpha = -1, .delta = ones, .shadow = &shadow, .id = Shadow::new_id()},
                          stats);
        }
      });
    }
    ThreadStats stats;
    std::int64_t torn_parts = 0;
    for (int read = 0; read < 300; ++read) {
      WatchedRead watch(shadow);
      strategy->read(region, {.into = copy, .watch = &watch}, stats);
      torn_parts += watch.torn_parts();
    }
    over = true;
    EXPECT_EQ(torn_parts, 0) << listed.info.name;
  }
}

TEST(ReadBench, LooksAtPlainCopiesTooAndSaysWhatIsWrong) {
  const auto nolock = make_strategy<Floats>("nolock");
  const ReadReport report =
      ReadBench(*nolock, {.readers = 1, .writers = 0, .reads = 50, .elements = 10, .consistent = false})
          .run();
  EXPECT_EQ(report.checked, 50);
  EXPECT_EQ(report.reads, 50);
  EXPECT_EQ(report.updates, 0);
  EXPECT_EQ(report.torn, 0);
  EXPECT_THROW(ReadBench(*nolock, {.readers = 1, .writers = 1, .reads = 1, .elements = 10}),
               std::invalid_argument);
  EXPECT_THROW(ReadBench(*nolock, {.readers = 0, .writers = 1, .reads = 1, .elements = 10}),
               std::invalid_argument);
}

// A strategy whose reads release the lock in the middle: the bench detects it if an update comes in between.
struct LetsGo {
  std::mutex mutex;

  template <Region R>
  void apply(R& region, const GradientDescent<float>& update, ThreadStats&) {
    const std::lock_guard held(mutex);
    update(region.memory(Holding::nothing), 0, update.size());
  }

  template <Region R>
  void read(R& region, const Reading<float>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const std::size_t half = memory.size() / 2;
    {
      const std::lock_guard held(mutex);
      reading(memory, 0, half);
    }
    const std::vector<float> ones(memory.size(), 1.0f);
    apply(region, {.alpha = -1, .delta = ones}, stats);  // an update that comes in between, every time
    const std::lock_guard held(mutex);
    reading(memory, half, memory.size() - half);
  }
};

TEST(ReadBench, CountsEveryTornRead) {
  LetsGo mutant;
  const ReadReport report =
      ReadBench(mutant, {.readers = 1, .writers = 1, .reads = 50, .elements = 10}).run();
  EXPECT_EQ(report.torn, report.checked);
  EXPECT_EQ(report.checked, 50);
}

}  // namespace
}  // namespace tmflow
