// Programs that hold a strategy to its promise: threads that update and read a tiny variable.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "atom.hpp"
#include "clock.hpp"
#include "explorer.hpp"
#include "tmflow/region.hpp"
#include "tmflow/spin_lock.hpp"
#include "tmflow/stats.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow::explore {

// What the threads do, and what must hold.
struct Plan {
  int updaters = 2;  // threads that update the variable once
  int readers = 0;   // threads that read it twice
  std::size_t elements = 2;
  std::size_t block = 2;  // elements that are promised to be consistent together
  Kernel<double> kernel = explore::kernel<double>;
  Copy<double> copy = explore::copy<double>;
};

inline constexpr std::size_t kMostElements = 4;

// A stripe of the software transactions is 32 bytes, so that four elements have one lock and are at the
// begin of it.
struct alignas(32) Memory {
  std::array<double, kMostElements> elements{};
};

// Update number `u` adds 2^u to every element: a value tells which updates are in it.
class Updates {
 public:
  static double unit(int update) { return static_cast<double>(1 << update); }

  explicit Updates(int update) { delta_.fill(-unit(update)); }

  GradientDescent<double> of(const Plan& plan) const {
    return {.alpha = 1, .delta = std::span(delta_).first(plan.elements), .kernel = plan.kernel};
  }

 private:
  std::array<double, kMostElements> delta_;
};

inline bool is_subset(double part, double whole) {
  return (static_cast<std::uint64_t>(part) & ~static_cast<std::uint64_t>(whole)) == 0;
}

template <class S>
class UnderTest {
 public:
  using Own = ArrayRegion<double, BasicSpinLock<Atom>>;

  template <class Make>
  UnderTest(const Plan& plan, const Make& make)
      : plan_(plan), region_(std::span(memory_.elements).first(plan.elements)), strategy_(make()) {
    name(&memory_, sizeof memory_, sizeof(double), "variable");
  }

  void update(int thread) {
    const Updates updates(thread);
    strategy_->apply(region_, updates.of(plan_), stats_[static_cast<std::size_t>(thread)]);
  }

  // Two readings one after another: each of whole updates, and the second not older than the first.
  void read_twice(int thread) {
    const Values first = read(thread), second = read(thread);
    for (std::size_t i = 0; i < plan_.elements; ++i) {
      require(is_subset(first[i], second[i]), "the second reading is older than the first");
    }
  }

  void read_own(int thread) {
    const Values seen = read(thread);
    require(is_subset(Updates::unit(thread), seen[0]), "a thread does not see its own update");
  }

  // Every update is there once, the counters say so, and nothing is held.
  void at_the_end() {
    const int after = plan_.updaters;
    check_sum(Updates::unit(after) - 1);
    for (int thread = 0; thread < plan_.updaters; ++thread) {
      require(stats_[static_cast<std::size_t>(thread)].updates() == 1, "an update was not counted once");
    }
    update(after);
    check_sum(2 * Updates::unit(after) - 1);
    if constexpr (kReads) {
      const Values seen = read(after);
      require(seen[0] == 2 * Updates::unit(after) - 1, "a reading at the end lacks an update");
    }
  }

 private:
  using Values = std::array<double, kMostElements>;

  static constexpr bool kReads = requires(S& s, Own& region, Reading<double> reading, ThreadStats& stats) {
    s.read(region, reading, stats);
  };

  Values read(int thread) {
    Values seen{};
    if constexpr (kReads) {
      const Reading<double> reading{.into = std::span(seen).first(plan_.elements), .copy = plan_.copy};
      strategy_->read(region_, reading, stats_[static_cast<std::size_t>(thread)]);
    }
    for (std::size_t i = 0; i < plan_.elements; ++i) {
      check_kept(&seen[i]);
      require(is_subset(seen[i], 2 * Updates::unit(plan_.updaters) - 1),
              "a value that no set of updates gives");
      require(seen[i] == seen[i - i % plan_.block], "a reading has parts of an update");
    }
    return seen;
  }

  void check_sum(double sum) {
    if constexpr (requires { strategy_->settle(region_); }) strategy_->settle(region_);
    for (std::size_t i = 0; i < plan_.elements; ++i) {
      require(memory_.elements[i] == sum,
              memory_.elements[i] < sum ? "an update is lost" : "an update is doubled");
    }
  }

  const Plan plan_;
  Memory memory_;
  Own region_;
  std::unique_ptr<S> strategy_;
  std::array<ThreadStats, kMostThreads> stats_;
};

// All schedules of `plan`; `make()` gives the strategy, as a unique_ptr.
template <class Make>
Report hold_to_promise(const Plan& plan, const Make& make, const Limits& limits = {}) {
  using S = typename decltype(make())::element_type;
  return explore(
      [&] {
        const auto test = std::make_shared<UnderTest<S>>(plan, make);
        Program program;
        for (int thread = 0; thread < plan.updaters; ++thread) {
          program.threads.push_back([=] { test->update(thread); });
        }
        for (int reader = 0; reader < plan.readers; ++reader) {
          program.threads.push_back([=] { test->read_twice(plan.updaters + 1 + reader); });
        }
        program.after = [=] { test->at_the_end(); };
        return program;
      },
      limits);
}

template <class S>
Report hold_to_promise(const Plan& plan, const Limits& limits = {}) {
  return hold_to_promise(plan, [] { return std::make_unique<S>(); }, limits);
}

// One line for docs/proofs.md.
inline void print(const std::string& what, const Report& report) {
  std::printf("%-44s %9lld interleavings, %9lld redundant, %10lld steps, %4d at most\n", what.c_str(),
              static_cast<long long>(report.interleavings), static_cast<long long>(report.redundant),
              static_cast<long long>(report.steps), report.longest);
  std::fflush(stdout);
}

}  // namespace tmflow::explore
