// adaptive: uses the strategy that is fastest for this variable, among those of the same consistency.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <optional>
#include <string>

#include "tmflow/adaptive/chooser.hpp"
#include "tmflow/adaptive/gate.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/lock_pthread.hpp"
#include "tmflow/strategies/spin.hpp"
#include "tmflow/strategies/striped.hpp"

namespace tmflow {

// Contract: the consistency that its parameter `promise` names, for updates and for reads through it. It
// chooses among strategies that keep it, and no two of them ever run at the same time (adaptive::Gate). All
// of them give the same guarantee to readers outside the strategy, and for assignments of the whole variable.
//
// How it chooses: the size of the variable and the number of threads that recently updated it give a first
// guess, according to measurements (docs/strategies/adaptive.md). Then it measures; for a fiftieth of the
// time it uses strategies other than the best.
//
// `Clock` is a parameter so that a test can control the time.
//
// Memory ordering: within one strategy, that of this strategy; from one strategy to the next, that of the
// gate.
template <class Clock = std::chrono::steady_clock>
class BasicAdaptive {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "promise",
       .fallback = "tensor",
       .summary = "the consistency that it guarantees with every strategy that it chooses",
       .choices = "block, tensor"},
  };
  static constexpr StrategyInfo info{
      .name = "adaptive",
      .summary = "switches to the fastest strategy of the same consistency for this variable",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
      .parameters = kParameters,
      .updates_over =
          [](const Parameters& given, std::size_t) {
            return given.text("promise") == "block" ? Consistency::block : Consistency::tensor;
          },
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicAdaptive(const Parameters& parameters)
      : keeps_whole_(parameters.text("promise") == "tensor"),
        chooser_(keeps_whole_ ? kTensorWays : kAllWays),
        gate_(0) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    std::int64_t passed;
    {
      Gate::Passage passage(gate_);
      by(passage.way, [&](auto& strategy) { strategy.apply(region, update, stats); });
      passed = passage.counted();
    }
    if ((passed & skipped_looks(update.size())) == 0) look(update.size());
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const Gate::Passage passage(gate_, Gate::Purpose::other);
    by(passage.way, [&](auto& strategy) { strategy.read(region, reading, stats); });
  }

 private:
  // The ways of tensor consistency come first.
  enum Way : int {
    kSpin,
    kMutex,
    kBlockStm,
    kTensorWays,
    kStriped = kTensorWays,
    kCombining,
    kCombiningFitted,
    kAllWays
  };

  using Gate = adaptive::Gate<>;
  static constexpr std::chrono::microseconds kWindow{200};  // hundreds of small updates
  static constexpr std::int64_t kFewest = 4;                // updates in a window, of each thread

  // A large update takes far longer than reading the clock, and small updates are frequent.
  static std::int64_t skipped_looks(std::size_t elements) noexcept { return elements < 16'384 ? 63 : 0; }

  template <class F>
  void by(int way, const F& f) {
    switch (way) {
      case kSpin:
        return f(spin_);
      case kMutex:
        return f(mutex_);
      case kBlockStm:
        return f(block_stm_);
      case kStriped:
        return f(striped_);
      case kCombining:
        return f(combining_);
      default:
        return f(combining_fitted_);
    }
  }

  // One thread looks, the others continue. It counts the threads that updated since the last look or are
  // updating now: a thread that waits for a lock may complete no update in many windows, but still contends.
  // Readers are not counted: no strategy is guessed or measured for them.
  void look(std::size_t elements) {
    const std::unique_lock looking(looking_, std::try_to_lock);
    if (!looking.owns_lock()) return;
    const auto now = Clock::now();
    if (now - looked_at_ < kWindow) return;

    const auto traffic = gate_.traffic();
    adaptive::Seen seen{.seconds = std::chrono::duration<double>(now - looked_at_).count()};
    for (std::size_t place = 0; place < traffic.size(); ++place) {
      const std::int64_t updates = traffic[place].updates - before_[place].updates;
      seen.updates += updates;
      seen.threads += updates != 0 || traffic[place].updating;
    }
    const bool is_first = chooser_.threads() == 0;
    if (!is_first && seen.updates < kFewest * seen.threads) return;
    const std::size_t way = chooser_.now();
    chooser_.look(seen, [&](int threads) { return guess(elements, threads); });
    if (chooser_.now() != way) gate_.lead(static_cast<int>(chooser_.now()));
    before_ = gate_.traffic();
    looked_at_ = Clock::now();
  }

  // The fastest strategy by docs/speed.md: for parts of the variable and at most two threads with fresh
  // gradients, as training has them; else with constant ones.
  std::size_t guess(std::size_t elements, int threads) const noexcept {
    if (threads == 1) return keeps_whole_ || elements < 4'096 ? kSpin : kStriped;
    if (elements < 512) return kMutex;
    const bool fits_a_cache = elements < 200'000;
    if (keeps_whole_) return fits_a_cache ? kBlockStm : kSpin;
    if (elements < 4'096 || (elements < 16'384 && threads > 2)) return kBlockStm;
    return threads == 2 ? kStriped : kCombining;
  }

  const bool keeps_whole_;
  Spin spin_;
  LockPthread mutex_;
  BasicBlockStm<std::atomic, ranges::Uncounted> block_stm_{4096};
  Striped striped_{0};
  Combining combining_{2048};
  Combining combining_fitted_{0};

  std::mutex looking_;  // guards the rest, except the gate
  typename Clock::time_point looked_at_{};
  Gate::Traffic before_{};
  adaptive::Chooser chooser_;
  Gate gate_;
};

using Adaptive = BasicAdaptive<>;

}  // namespace tmflow
