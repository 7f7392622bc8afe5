// htm_if_fits: one transaction for what fits, the locks of blocks for the rest.
#include "tmflow/strategies/htm_if_fits.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "refused.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"

namespace tmflow {
namespace {

using htm::TouchedLocks;
using htm::emulated::HardwareThread;
using htm::emulated::Processor;

constexpr char kTsx[] = "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";
constexpr char kSmall[] = "provider=rtm;line_bytes=64;sets=1;ways=4;reads_fill=1;siblings=1;asynchronous=0";

std::vector<std::string> on(const char* machine, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"provider=emulated", std::string("machine=") + machine});
  return more;
}

// The sizes of the parts that the kernel has updated.
std::vector<std::size_t> parts;

void noting(float* variable, const float* delta, float alpha, std::size_t n) noexcept {
  parts.push_back(n);
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

class UpdateOfHtmIfFits : public ::testing::Test {
 protected:
  void SetUp() override { parts.clear(); }

  auto strategy(const char* machine, std::vector<std::string> more = {}) {
    return make_strategy<ArrayRegion<float>>("htm_if_fits", on(machine, std::move(more)));
  }

  // One update of so many elements with blocks of 300.
  void apply(std::size_t elements, const char* machine, std::vector<std::string> more) {
    more.emplace_back("block=300");
    std::vector<float> variable(elements), delta(elements, 1);
    ArrayRegion<float> region(variable);
    stats_.time_locks(true);
    // Not through the registry, which sets the kernel.
    const Parameters parameters("htm_if_fits", HtmIfFits::kParameters, on(machine, std::move(more)));
    HtmIfFits(parameters).apply(region, {.alpha = -1, .delta = delta, .kernel = noting}, stats_);
    EXPECT_EQ(variable, delta);
    EXPECT_EQ(stats_.updates(), ++applied_);
  }

  ThreadStats stats_;
  std::int64_t applied_ = 0;
};

TEST_F(UpdateOfHtmIfFits, IsOneTransactionWithoutALock) {
  apply(1000, kTsx, {"fits=1000"});
  EXPECT_EQ(parts, std::vector<std::size_t>{1000});
  EXPECT_EQ(stats_.commits(), 1);
  EXPECT_EQ(stats_.fallbacks(), 0);
  EXPECT_EQ(stats_.held_ns(), 0);
  EXPECT_EQ(stats_.counted(Contention::retries, 0), 1);
}

TEST_F(UpdateOfHtmIfFits, OtherwiseTriesNoTransaction) {
  apply(1000, kTsx, {"fits=999"});
  std::ranges::sort(parts);
  EXPECT_EQ(parts, (std::vector<std::size_t>{100, 300, 300, 300}));
  EXPECT_EQ(attempts(stats_), 0);
  EXPECT_EQ(stats_.fallbacks(), 1);
  EXPECT_GT(stats_.held_ns(), 0);
  EXPECT_EQ(stats_.counted(Contention::retries, 0), 1);
  EXPECT_EQ(stats_.counted(Contention::taken_blocks, 0), 1);
}

TEST_F(UpdateOfHtmIfFits, TakesTheLocksWhenItsBudgetIsSpent) {
  apply(1000, kSmall, {"budget=3", "fits=1000"});
  std::ranges::sort(parts);
  EXPECT_EQ(parts, (std::vector<std::size_t>{100, 300, 300, 300}));
  EXPECT_EQ(stats_.aborts(), (ThreadStats::Aborts{{0x8, 3}}));
  EXPECT_EQ(stats_.commits(), 0);
  EXPECT_EQ(stats_.fallbacks(), 1);
  EXPECT_EQ(stats_.counted(Contention::retries, 3), 1);
}

// The probe finds 512 lines of 64 bytes, and four fifths of them hold 3,184 floats with their gradient and 11
// locks.
TEST_F(UpdateOfHtmIfFits, FitsAsTheProbeFinds) {
  apply(3184, kTsx, {});
  EXPECT_EQ(stats_.commits(), 1);
  apply(3185, kTsx, {});
  EXPECT_EQ(attempts(stats_), 1);
  EXPECT_EQ(stats_.fallbacks(), 1);
}

TEST(FitsOfUpdate, CountTheLinesOfAllArraysAndLocks) {
  const probe::UpdateCapacity capacity{.line_bytes = 64, .written_lines = 512, .touched_lines = 512};
  std::vector<float> delta(10'000);
  Slots<float> slots{.kernel = nullptr};
  slots.memory = {delta.data(), delta.data()};
  const auto fit = [&](std::size_t elements, const Slots<float>* of, std::size_t blocks = 1) {
    const Blocks in_blocks{elements, elements == 0 ? 1 : (elements + blocks - 1) / blocks};
    const GradientDescent<float> update{.alpha = 1, .delta = std::span(delta).first(elements), .slots = of};
    return htm::fits(update, capacity, in_blocks);
  };
  EXPECT_TRUE(fit(204 * 16, nullptr));  // 2 x 204 lines and a lock: 409 of 512
  EXPECT_FALSE(fit(204 * 16 + 1, nullptr));
  EXPECT_FALSE(fit(204 * 16, nullptr, 2));
  EXPECT_TRUE(fit(102 * 16, &slots));
  EXPECT_FALSE(fit(102 * 16 + 1, &slots));
  EXPECT_TRUE(fit(0, nullptr));

  // Each row may have lines of its own.
  std::vector<std::int64_t> numbers(200);
  std::iota(numbers.begin(), numbers.end(), 0);
  const auto rows_fit = [&](std::size_t n, std::size_t width, std::size_t block) {
    const RowGradient<float> rows{.rows = std::span(numbers).first(n),
                                  .values = std::span(delta).first(n * width),
                                  .width = width,
                                  .elements = delta.size()};
    return htm::fits(GradientDescent<float>{.alpha = 1, .rows = &rows}, capacity,
                     Blocks{delta.size(), block});
  };
  // 16 floats: a line, one of the gradient, an eighth of numbers, and a lock, for each row.
  EXPECT_TRUE(rows_fit(130, 16, 16));  // 130 + 130 + 17 + 130 = 407 of 512
  EXPECT_FALSE(rows_fit(131, 16, 16));
  EXPECT_TRUE(rows_fit(190, 16, 10'000));  // 190 + 190 + 24 + 1 = 405
  EXPECT_FALSE(rows_fit(193, 16, 10'000));
  // 12 floats may be on two lines, and in two blocks: 2 + 3/4 + 1/8 + 2.
  EXPECT_TRUE(rows_fit(83, 12, 16));  // 166 + 63 + 11 + 166 = 406
  EXPECT_FALSE(rows_fit(84, 12, 16));
}

TEST(FitsOfUpdate, WrittenLinesMayBeTheLimit) {
  const probe::UpdateCapacity capacity{.line_bytes = 128, .written_lines = 10, .touched_lines = 1000};
  const std::vector<double> delta(200);
  const auto fit = [&](std::size_t elements) {
    return htm::fits(GradientDescent<double>{.alpha = 1, .delta = std::span(delta).first(elements)}, capacity,
                     Blocks{elements, elements});
  };
  EXPECT_TRUE(fit(8 * 16));
  EXPECT_FALSE(fit(8 * 16 + 1));
}

TEST(FitsOfUpdate, AreFoundOnceForEachMachine) {
  const auto first = probe::update_capacity(kTsx);
  EXPECT_EQ(first.line_bytes, 64);
  EXPECT_EQ(first.written_lines, 512);
  EXPECT_EQ(first.touched_lines, 512);
  EXPECT_EQ(probe::update_capacity(kSmall).touched_lines, 4);
  EXPECT_EQ(probe::update_capacity("provider=power;line_bytes=128;entries=64;siblings=1;asynchronous=0")
                .touched_lines,
            64);
  // A line that no transaction can touch without an abort of another cause.
  const std::string never =
      "provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=1";
  EXPECT_THROW(probe::update_capacity(never), probe::NotMeasured);
  try {
    make_strategy<ArrayRegion<float>>("htm_if_fits", on(never.c_str()));
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_EQ(std::string(error.what()),
              "htm_if_fits cannot measure how much fits into a transaction here, so name `fits`: even "
              "transactions that write a single place committed in less than half of the tries");
  }
}

TEST_F(UpdateOfHtmIfFits, CountsTheElementsOfRows) {
  std::vector<float> variable(40), values(12, 1);
  ArrayRegion<float> region(variable);
  const std::vector<std::int64_t> rows{1, 4, 9};
  const RowGradient<float> three{.rows = rows, .values = values, .width = 4, .elements = 40};
  const RowGradient<float> two{
      .rows = std::span(rows).first(2), .values = std::span(values).first(8), .width = 4, .elements = 40};
  const RowGradient<float> none{.rows = {}, .values = {}, .width = 4, .elements = 40};
  const auto eight = strategy(kTsx, {"fits=8", "block=4"});
  eight->apply(region, {.alpha = -1, .rows = &two}, stats_);
  EXPECT_EQ(stats_.commits(), 1);
  eight->apply(region, {.alpha = -1, .rows = &three}, stats_);
  EXPECT_EQ(attempts(stats_), 1);
  EXPECT_EQ(stats_.fallbacks(), 1);
  eight->apply(region, {.alpha = -1, .rows = &none}, stats_);
  EXPECT_EQ(stats_.commits(), 2);
  for (std::size_t i = 0; i < variable.size(); ++i) {
    const float expected = i / 4 == 9 ? 1 : i / 4 == 1 || i / 4 == 4 ? 2 : 0;
    EXPECT_EQ(variable[i], expected) << i;
  }
}

TEST_F(UpdateOfHtmIfFits, RefusesToFuseWithEmulatedTransactions) {
  std::vector<float> variable(6), input(2, 1), output(3, 1);
  ArrayRegion<float> region(variable);
  const DenseGradient<float> dense{.input = input, .output = output, .examples = 1};
  EXPECT_THROW(strategy(kTsx)->apply(region, {.alpha = 1, .dense = &dense}, stats_), std::invalid_argument);
  EXPECT_EQ(variable, std::vector<float>(6));
}

TEST_F(UpdateOfHtmIfFits, ChecksItsParameters) {
  const auto fails = [](const std::vector<std::string>& given) { return refusal("htm_if_fits", given); };
  EXPECT_EQ(fails({"fits=-1"}), "fits of strategy 'htm_if_fits' is '-1'; allowed: 0 to 1000000000");
  EXPECT_EQ(fails({"provider=emulated"}), "provider emulated of strategy 'htm_if_fits' needs a machine");
}

// The locks of a variable of three blocks, each on a line of its own, and one update of it in a transaction,
// during whose kernel another thread locks one of the blocks and unlocks it.
class LocksOfHtmIfFits : public ::testing::Test {
 protected:
  static constexpr std::size_t kBlock = 300;

  bool commits(const GradientDescent<float>& update) {
    const htm::ElidedUpdate<float> whole{update, variable_, 0, &processor_};
    const TouchedLocks<float> locks(stripes_, update);
    return htm::emulated::try_whole(here_, 64, whole, locks, {1, htm::Spending::study_tsx}, stats_);
  }

  bool commits_despite(std::size_t block, const RowGradient<float>* rows = nullptr) {
    intruder = [this, block] {
      const htm::emulated::NotifyingMutex<HardwareThread, SpinLock> lock{other_, stripes_.lock(block)};
      lock.lock();
      lock.unlock();
    };
    return commits({.alpha = 1, .delta = delta_, .kernel = intruded, .rows = rows});
  }

  static inline std::function<void()> intruder;
  static void intruded(float*, const float*, float, std::size_t) noexcept { intruder(); }

  Processor processor_{htm::emulated::MachineText::parse(kTsx)};
  HardwareThread here_{processor_}, other_{processor_};
  std::vector<float> variable_ = std::vector<float>(3 * kBlock), delta_ = variable_;
  Stripes stripes_{3 * kBlock, kBlock};
  ThreadStats stats_;
};

TEST_F(LocksOfHtmIfFits, AbortTheTransactionIfOneIsLockedLater) {
  for (const std::size_t block : {0, 1, 2}) EXPECT_FALSE(commits_despite(block)) << block;
  EXPECT_EQ(stats_.aborts(), (ThreadStats::Aborts{{0x6, 3}}));
  const std::vector<std::int64_t> rows{0, 2 * kBlock};
  const RowGradient<float> first_and_last{
      .rows = rows, .values = std::span(delta_).first(2), .width = 1, .elements = 3 * kBlock};
  EXPECT_FALSE(commits_despite(0, &first_and_last));
  EXPECT_FALSE(commits_despite(2, &first_and_last));
  EXPECT_TRUE(commits_despite(1, &first_and_last));
}

TEST_F(LocksOfHtmIfFits, AbortTheTransactionIfOneIsHeld) {
  const GradientDescent<float> update{.alpha = 1, .delta = delta_};
  const TouchedLocks<float> locks(stripes_, update);
  EXPECT_FALSE(locks.taken());
  stripes_.lock(1).lock();
  EXPECT_TRUE(locks.taken());
  htm::emulated::BufferedUpdate<float> inside(here_, 64, update, variable_, 0, variable_.size());
  htm::Ended ended{};
  EXPECT_FALSE(htm::emulated::Emulated(here_, locks).attempt([&] { return locks.taken(); }, inside, ended));
  EXPECT_EQ(ended.status, 30u << 24 | 1u);
  stripes_.lock(1).unlock();
  EXPECT_TRUE(commits(update));
}

TEST_F(LocksOfHtmIfFits, AreWaitedForBeforeTheTransaction) {
  stripes_.lock(2).lock();
  std::thread owner([&] {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(20));  // without a wait, the attempt comes before this
    stripes_.lock(2).unlock();
  });
  EXPECT_TRUE(commits({.alpha = 1, .delta = delta_}));
  owner.join();
  EXPECT_EQ(attempts(stats_), 1);
}

// Threads with transactions and threads with locks at the same strategy object, and one that reads it.
TEST_F(UpdateOfHtmIfFits, LosesNothingWhereBothMeet) {
  constexpr std::size_t kElements = 200;
  constexpr std::int64_t kUpdates = 500;
  std::vector<float> variable(kElements), ones(kElements, 1);
  ArrayRegion<float> region(variable);
  const auto both = strategy(kTsx, {"fits=100", "block=50"});
  const std::vector<std::int64_t> rows{0, 1, 3};
  const RowGradient<float> some{
      .rows = rows, .values = std::span(ones).first(60), .width = 20, .elements = kElements};
  ThreadStats of_rows, of_all, of_reader;
  std::thread fitting([&] {
    for (std::int64_t u = 0; u < kUpdates; ++u) both->apply(region, {.alpha = -1, .rows = &some}, of_rows);
  });
  std::thread whole([&] {
    for (std::int64_t u = 0; u < kUpdates; ++u) both->apply(region, {.alpha = -1, .delta = ones}, of_all);
  });
  std::vector<float> copy(kElements);
  for (int reading = 0; reading < 100; ++reading) {
    both->read(region, {.into = copy}, of_reader);
    for (std::size_t block = 0; block < kElements; block += 50) {
      // Block 0 begins with row 0, and row 3 lies in block 1, behind the second half of row 2.
      const std::size_t row = block == 50 ? 10 : 0;
      EXPECT_EQ(copy[block + row], copy[block + row + 19]) << block;
      EXPECT_EQ(copy[block + 40], copy[block + 49]) << block;
    }
  }
  fitting.join();
  whole.join();
  for (std::size_t i = 0; i < kElements; ++i) {
    EXPECT_EQ(variable[i], i / 20 == 0 || i / 20 == 1 || i / 20 == 3 ? 2 * kUpdates : kUpdates) << i;
  }
  EXPECT_EQ(attempts(of_all), 0);
  EXPECT_EQ(of_all.fallbacks(), kUpdates);
  EXPECT_EQ(of_rows.commits() + of_rows.fallbacks(), kUpdates);
}

TEST_F(UpdateOfHtmIfFits, LosesNothingInTransactionsAlone) {
  const auto all = make_strategy<ArrayRegion<double>>("htm_if_fits", on(kTsx, {"block=7", "budget=2"}));
  EXPECT_TRUE(audit<double>(*all, {.threads = 4, .updates = 300, .elements = 100}).clean());
}

}  // namespace
}  // namespace tmflow
