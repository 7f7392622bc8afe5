// adaptive: when it looks, which threads it counts, and which way it then chooses. The test controls the
// time. The block lengths of an update show the way: 32,768 elements for `striped`, 2,048 for `combining`;
// the other ways update the whole variable in one piece.
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <mutex>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "stepped_clock.hpp"

namespace tmflow::adaptive {
namespace {

Stepped make(const std::string& promise) {
  const std::vector<std::string> given{"promise=" + promise};
  return Stepped(Parameters("adaptive", Stepped::kParameters, given));
}

// The length of the last block. Only the updating thread writes it, and nobody reads it during an update.
std::size_t last_block = 0;
void note_block(float*, const float*, float, std::size_t n) noexcept { last_block = n; }

constexpr std::size_t kLarge = 131'072;  // so large that a look follows each update

// A variable with the given number of elements.
class Variable {
 public:
  explicit Variable(std::size_t elements) : values_(elements), ones_(elements, 1), region_(values_) {}

  // The length of the blocks of the last of `times` updates, made by this thread.
  std::size_t update(Stepped& strategy, int times, Kernel<float> kernel = note_block) {
    for (int i = 0; i < times; ++i) {
      strategy.apply(region_, {.alpha = -1, .delta = ones_, .kernel = kernel}, stats_);
    }
    return last_block;
  }

  ArrayRegion<float>& region() { return region_; }

 private:
  std::vector<float> values_, ones_;
  ArrayRegion<float> region_;
  ThreadStats stats_;
};

// Another thread, which does the work it is given while the first one waits. All threads live, so each has a
// place.
class Other {
 public:
  Other()
      : thread_([this] {
          while (true) {
            handed_.acquire();
            if (!work_) return;
            work_();
            done_.release();
          }
        }) {}
  ~Other() {
    work_ = nullptr;
    handed_.release();
  }

  void run(std::function<void()> work) {
    work_ = std::move(work);
    handed_.release();
    done_.acquire();
  }

 private:
  std::function<void()> work_;
  std::binary_semaphore handed_{0}, done_{0};
  std::jthread thread_;
};

TEST(AdaptiveLooks, TheFirstLookGuessesByTheSize) {
  Stepped block = make("block"), small = make("block"), tensor = make("tensor");
  Variable variable(kLarge), short_one(4'000);
  EXPECT_EQ(variable.update(block, 1), kLarge);
  EXPECT_EQ(variable.update(block, 1), 32'768);
  EXPECT_EQ(variable.update(tensor, 2), kLarge);
  EXPECT_EQ(short_one.update(small, 2), 4'000);
}

// For a small variable, a look follows one in 64 updates.
TEST(AdaptiveLooks, LooksAreRareWhereUpdatesAreShort) {
  Stepped strategy = make("block");
  Variable variable(8'192);
  const int before = SteppedClock::looks;
  variable.update(strategy, 1 + 64 * 10);
  EXPECT_GE(SteppedClock::looks - before, 11);
  EXPECT_LE(SteppedClock::looks - before, 22);
}

TEST(AdaptiveLooks, OtherUpdatersAreCountedWhenTheyWereSeenTwice) {
  Stepped strategy = make("block");
  Variable variable(kLarge), same(kLarge);
  Other second, third;
  variable.update(strategy, 1);  // the first look
  // A look comes after 12 updates of three threads. Returns the block length of the last update.
  const auto window = [&] {
    for (int i = 0; i < 4; ++i) {
      variable.update(strategy, 1);
      for (Other* const other : {&second, &third}) other->run([&] { same.update(strategy, 1); });
    }
    return last_block;
  };
  EXPECT_EQ(window(), 32'768);
  EXPECT_EQ(window(), 32'768);
  EXPECT_EQ(window(), 2'048);
}

// With two threads the blocks are those of one, `striped`.
TEST(AdaptiveLooks, TwoUpdatersAreGuessedToBeFastestInStripes) {
  Stepped strategy = make("block");
  Variable variable(kLarge), same(kLarge);
  Other second;
  variable.update(strategy, 1);
  for (int i = 0; i < 4 * 4; ++i) {  // four looks
    variable.update(strategy, 1);
    second.run([&] { same.update(strategy, 1); });
    EXPECT_EQ(last_block, 32'768);
  }
}

TEST(AdaptiveLooks, AReaderIsNoUpdater) {
  Stepped strategy = make("block");
  Variable variable(kLarge), same(kLarge);
  Other second, third;
  variable.update(strategy, 2);
  for (int i = 0; i < 10; ++i) {
    for (Other* const reader : {&second, &third}) {
      std::vector<float> copy(kLarge);
      ThreadStats stats;
      reader->run([&] { strategy.read(same.region(), {.into = copy}, stats); });
    }
    EXPECT_EQ(variable.update(strategy, 4), 32'768);
  }
}

// A region whose memory makes the strategy wait.
class HeldUp {
 public:
  using Value = float;

  explicit HeldUp(ArrayRegion<float>& region) : region_(region) {}

  std::mutex& mutex() { return region_.mutex(); }
  std::span<float> memory(Holding holding) {
    inside_.release();
    go_on_.acquire();
    return region_.memory(holding);
  }

  void wait_until_inside() { inside_.acquire(); }
  void go_on() { go_on_.release(); }

 private:
  ArrayRegion<float>& region_;
  std::binary_semaphore inside_{0}, go_on_{0};
};

// Two readers: if they counted as updaters, adaptive would choose another way and wait until they are out.
TEST(AdaptiveLooks, AReaderInsideIsNoUpdater) {
  Stepped strategy = make("block");
  Variable variable(kLarge), same(kLarge);
  variable.update(strategy, 2);
  HeldUp regions[]{HeldUp(same.region()), HeldUp(same.region())};
  std::vector<std::jthread> readers;
  for (HeldUp& region : regions) {
    readers.emplace_back([&] {
      std::vector<float> copy(kLarge);
      ThreadStats stats;
      strategy.read(region, {.into = copy}, stats);
    });
    region.wait_until_inside();
  }
  auto updates = std::async(std::launch::async, [&] { return variable.update(strategy, 40); });
  EXPECT_EQ(updates.wait_for(std::chrono::seconds(30)), std::future_status::ready);
  for (HeldUp& region : regions) region.go_on();
  EXPECT_EQ(updates.get(), 32'768);
}

// The regions of the waiting threads, once the updates of a window are made.
std::vector<HeldUp*> held_up;
void let_go(float*, const float*, float, std::size_t) noexcept {
  for (HeldUp* const region : std::exchange(held_up, {})) region->go_on();
}

// The waiting threads make no update in the first of two windows.
TEST(AdaptiveLooks, AnUpdaterThatWaitsIsCounted) {
  Stepped strategy = make("block");
  Variable variable(kLarge), same(kLarge);
  variable.update(strategy, 2);  // the first look, and one of the twelve updates
  const std::vector<float> ones(kLarge, 1);
  HeldUp regions[]{HeldUp(same.region()), HeldUp(same.region())};
  std::vector<std::jthread> others;
  for (HeldUp& region : regions) {
    others.emplace_back([&] {
      ThreadStats stats;
      strategy.apply(
          region,
          {.alpha = -1, .delta = ones, .kernel = [](float*, const float*, float, std::size_t) noexcept {}},
          stats);
    });
    region.wait_until_inside();
  }
  EXPECT_EQ(variable.update(strategy, 22), 32'768);
  held_up = {&regions[0], &regions[1]};
  variable.update(strategy, 1,
                  let_go);  // the last of the second window: the look after it waits for the others
  EXPECT_EQ(variable.update(strategy, 1), 2'048);
}

}  // namespace
}  // namespace tmflow::adaptive
