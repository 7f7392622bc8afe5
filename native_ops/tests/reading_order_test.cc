// Reads through a strategy: an update of an element that was read happens before the end of the read.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "stepped_clock.hpp"
#include "tmflow/core/registered.hpp"
#include "tmflow/core/registry.hpp"

namespace tmflow {
namespace {

using Floats = ArrayRegion<float>;

constexpr std::size_t kWriters = 2, kMostUpdates = 4095;  // of each writer
constexpr int kReads = 50;

// The amount that one update of a writer adds to each element. A float shows exactly how many updates of each
// writer it contains.
constexpr std::array<float, kWriters> kStep{1, kMostUpdates + 1};

// The overlapping gradients of a writer: that of update u begins at place u, which no later update reads. A
// thread that finds the update in the variable's first element may overwrite that place. ThreadSanitizer
// reports a race unless the strategy orders the update of this element, which reads the place, before the end
// of the read.
class Gradients {
 public:
  Gradients(std::size_t elements, float step)
      : elements_(elements), values_(kMostUpdates + elements, -step) {}

  std::span<const float> of_update(std::size_t update) const {
    return std::span(values_).subspan(update, elements_);
  }

  // Overwrites the places of the updates up to this one, which must have been read.
  void overwrite(std::size_t update) {
    for (; overwritten_ < update; ++overwritten_) {
      values_[overwritten_ + 1] = std::numeric_limits<float>::quiet_NaN();
    }
  }

 private:
  const std::size_t elements_;
  std::vector<float> values_;
  std::size_t overwritten_ = 0;
};

// Two threads update; one reads, and overwrites the gradients of the updates that it has read.
template <class S>
void expect_updates_before_reads(S& strategy, std::size_t elements) {
  std::vector<float> variable(elements), copy(elements);
  Floats region(variable);
  std::array<Gradients, kWriters> gradients{Gradients(elements, kStep[0]), Gradients(elements, kStep[1])};
  std::atomic<bool> over{false};  // relaxed, so that it orders nothing that the strategy must order
  std::vector<std::jthread> writers;
  for (std::size_t writer = 0; writer < kWriters; ++writer) {
    writers.emplace_back([&, writer] {
      ThreadStats stats;
      for (std::size_t update = 1; update < kMostUpdates && !over.load(std::memory_order_relaxed); ++update) {
        strategy.apply(region, {.alpha = 1, .delta = gradients[writer].of_update(update)}, stats);
      }
    });
  }
  ThreadStats stats;
  bool finite = true;
  for (int read = 0; read < kReads || copy.front() == 0; ++read) {
    strategy.read(region, {.into = copy}, stats);
    if (!(finite = std::ranges::all_of(copy, [](float element) { return std::isfinite(element); }))) break;
    // The update may still be in progress in other blocks.
    const auto updates = static_cast<std::size_t>(copy.front());
    gradients[0].overwrite(updates % (kMostUpdates + 1));
    gradients[1].overwrite(updates / (kMostUpdates + 1));
  }
  over.store(true, std::memory_order_relaxed);
  writers.clear();
  EXPECT_TRUE(finite);
}

TEST(ReadingOrder, AnUpdateThatWasReadHappensBefore) {
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process || listed.info.snapshots < Consistency::block) continue;
    for (const std::size_t elements : {16, 5000}) {
      SCOPED_TRACE(std::string(listed.info.name) + " " + std::to_string(elements));
      expect_updates_before_reads(*make_strategy<Floats>(listed.info.name), elements);
    }
  }
}

// adaptive may change its way after each update here.
TEST(ReadingOrder, HoldsFromOneWayOfAdaptiveToTheNext) {
  for (const std::string promise : {"block", "tensor"}) {
    SCOPED_TRACE(promise);
    const std::vector<std::string> given{"promise=" + promise};
    adaptive::Stepped strategy(Parameters("adaptive", adaptive::Stepped::kParameters, given));
    expect_updates_before_reads(strategy, 16'384);
  }
}

}  // namespace
}  // namespace tmflow
