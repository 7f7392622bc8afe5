// adaptive: goes by whichever strategy of the same promise is fastest for this variable.
#pragma once

#include <chrono>
#include <cstddef>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "tmflow/adaptive/chooser.hpp"
#include "tmflow/adaptive/gate.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/lock_pthread.hpp"
#include "tmflow/strategies/spin.hpp"
#include "tmflow/strategies/striped.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: the promise that its parameter names, for updates and for reads by way of it: it chooses among
// strategies that keep it, and never has two of them at work at once (adaptive::Gate). What they promise of
// readers that take no part, and of assignments of the whole variable, they promise alike.
//
// What it goes by: the size of the variable and how many threads updated it lately give a first guess, from
// what was measured (docs/strategies/adaptive.md). Then it measures itself, a fiftieth of the time by other
// ways than the best.
//
// Memory ordering: within a way, that of its strategy; from one to the next, that of the gate.
class Adaptive {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "promise",
       .fallback = "tensor",
       .summary = "what it keeps to, whatever it chooses",
       .choices = "block, tensor"},
  };
  static constexpr StrategyInfo info{
      .name = "adaptive",
      .summary = "whichever strategy of the same promise is fastest for this variable",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .snapshots = Promise::tensor,
      .parameters = kParameters,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit Adaptive(const Parameters& parameters)
      : ways_(parameters.text("promise") == "tensor" ? std::span<const Way>(kTensorWays) : kBlockWays),
        chooser_(ways_.size(), [](int) { return std::size_t{0}; }),
        gate_(0) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    by_way([&](auto& strategy) { strategy.apply(region, update, stats); });
    if (gate_.count_passage() % looks_every(update.size()) == 0) look(update.size());
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    by_way([&](auto& strategy) { strategy.read(region, reading, stats); });
  }

 private:
  enum class Way { mutex, spin, combining_whole, striped, combining };
  static constexpr Way kTensorWays[] = {Way::mutex, Way::spin, Way::combining_whole};
  static constexpr Way kBlockWays[] = {Way::mutex, Way::striped, Way::combining};

  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kWindow{200};  // hundreds of small updates
  static constexpr std::int64_t kFewest = 4;                // updates in a window, of each thread
  static constexpr std::size_t kSmall = 256;                // elements, few enough for one lock
  static constexpr std::size_t kLarge = 16384;  // elements, whose update dwarfs a look at the clock

  static std::int64_t looks_every(std::size_t elements) noexcept { return elements < kLarge ? 64 : 1; }

  template <class F>
  void by_way(const F& f) {
    struct Passage {
      explicit Passage(adaptive::Gate<>& gate) : gate(gate), way(gate.enter()) {}
      ~Passage() { gate.leave(); }
      adaptive::Gate<>& gate;
      const adaptive::Gate<>::Way way;
    } const passage(gate_);
    switch (ways_[static_cast<std::size_t>(passage.way)]) {
      case Way::mutex:
        return f(mutex_);
      case Way::spin:
        return f(spin_);
      case Way::combining_whole:
        return f(combining_whole_);
      case Way::striped:
        return f(striped_);
      case Way::combining:
        return f(combining_);
    }
  }

  // One thread looks, the others go on.
  void look(std::size_t elements) {
    const std::unique_lock looking(looking_, std::try_to_lock);
    if (!looking.owns_lock()) return;
    const auto now = Clock::now();
    if (now - looked_at_ < kWindow) return;
    const auto passed = gate_.passages();
    adaptive::Seen seen{
        .seconds = std::chrono::duration<double>(now - looked_at_).count(), .updates = 0, .threads = 0};
    for (std::size_t place = 0; place < passed.size(); ++place) {
      seen.updates += passed[place] - passed_[place];
      seen.threads += passed[place] != passed_[place];
    }
    if (seen.updates < kFewest * seen.threads) return;
    const bool first = looked_at_ == Clock::time_point();
    passed_ = passed;
    looked_at_ = now;
    if (first) return;
    const std::size_t before = chooser_.now();
    const std::size_t way = chooser_.look(seen, [&](int threads) { return guess(elements, threads); });
    if (way != before) gate_.lead(static_cast<int>(way));
    looked_at_ = Clock::now();
  }

  // As measured (docs/strategies/adaptive.md).
  std::size_t guess(std::size_t elements, int threads) const noexcept {
    if (threads == 1 || elements < kSmall) return 0;
    return ways_.size() - 1;
  }

  const std::span<const Way> ways_;
  LockPthread mutex_;
  Spin spin_;
  Combining combining_whole_{std::numeric_limits<std::size_t>::max()};  // one block, however long
  Striped striped_{2048};
  Combining combining_{2048};

  std::mutex looking_;  // guards the rest
  Clock::time_point looked_at_{};
  adaptive::Gate<>::Passages passed_{};
  adaptive::Chooser chooser_;
  adaptive::Gate<> gate_;
};

}  // namespace tmflow
