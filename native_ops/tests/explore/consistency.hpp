// Programs that check the consistency of a strategy: threads that update and read a tiny variable.
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
#include "tmflow/core/region.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::explore {

// The work of the threads, and what must hold.
struct Plan {
  int updaters = 2;             // threads that update the variable
  int again = 1;                // how many of them update twice, to reuse what an update leaves behind
  bool read_own = false;        // whether an updater then reads the variable
  int readers = 0;              // threads that read it
  int readings = 2;             // readings of each reader
  bool fresh_gradient = false;  // whether a thread writes all its gradients to one place, each access a step
  std::array<unsigned, kMostThreads>
      rows{};                // bit i: the thread's updates are of rows, and row i is one; 0: all
  std::size_t elements = 2;  // a row has one
  std::size_t block = 2;     // elements that must be consistent with each other, as far as an update has them
  std::size_t first = 0;     // of the elements; their memory has a lock for each stripe of 4
  Kernel<double> kernel = explore::kernel<double>;
  Copy<double> copy = explore::copy<double>;
};

inline constexpr std::size_t kMostElements = 4;

struct alignas(32) Memory {
  std::array<double, 2 * kMostElements> all{};
};

// Update number `u` adds 2^u to every element, or to those of its rows, so a value shows which updates it
// contains.
class Updates {
 public:
  static double unit(int update) { return static_cast<double>(1 << update); }

  // `rows`: as in Plan.
  explicit Updates(int update, unsigned rows) {
    delta_.fill(-unit(update));
    for (std::size_t row = 0; row < kMostElements; ++row) {
      if ((rows >> row & 1) != 0) rows_[count_++] = static_cast<std::int64_t>(row);
    }
  }
  Updates(const Updates&) = delete;
  Updates& operator=(const Updates&) = delete;

  GradientDescent<double> of(const Plan& plan) {
    if (count_ == 0) {
      return {.alpha = 1, .delta = std::span(delta_).first(plan.elements), .kernel = plan.kernel};
    }
    gradient_ = {.rows = std::span(rows_).first(count_),
                 .values = std::span(delta_).first(count_),
                 .width = 1,
                 .elements = plan.elements};
    return {.alpha = 1, .kernel = plan.kernel, .rows = &gradient_};
  }

 private:
  std::array<double, kMostElements> delta_;
  std::array<std::int64_t, kMostElements> rows_{};
  std::size_t count_ = 0;
  RowGradient<double> gradient_{};
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
      : plan_(plan),
        elements_(std::span(memory_.all).subspan(plan.first, plan.elements)),
        region_(elements_),
        strategy_(make()) {
    name(elements_.data(), elements_.size_bytes(), sizeof(double), "variable");
    name(gradients_.data(), sizeof gradients_, sizeof(double), "gradient");
    name(notes_.data(), sizeof notes_, sizeof(double), "note");
  }

  // All updates of a thread, and a reading if the plan asks for one.
  void update(int thread) {
    for (int turn = 0; turn < turns(thread); ++turn) update(thread, number(thread, turn));
    if constexpr (kReads) {
      if (plan_.read_own) require_own(thread, read(thread));
    }
  }

  // Several readings: each consists of whole updates, and none is older than the one before.
  void read_again(int thread) {
    Values before{};
    for (int reading = 0; reading < plan_.readings; ++reading) {
      const Values now = read(thread);
      for (std::size_t i = 0; i < plan_.elements; ++i) {
        require(is_subset(before[i], now[i]), "the second reading is older than the first");
      }
      before = now;
    }
  }

  // For a thread that has updated: its updates must be in every element.
  void require_own(int thread) {
    Values values{};
    for (std::size_t i = 0; i < plan_.elements; ++i) values[i] = read_element(&elements_[i], true);
    require_own(thread, values);
  }

  // Every update is applied exactly once, the counters agree, and no lock is held.
  void at_the_end() {
    check_sum(last());
    for (int thread = 0; thread < plan_.updaters; ++thread) {
      require(stats_[static_cast<std::size_t>(thread)].updates() == turns(thread),
              "an update was not counted once");
    }
    update(plan_.updaters, last());
    check_sum(last() + 1);
    if constexpr (kReads) {
      const Values seen = read(plan_.updaters);
      require(seen[0] == sum_of(last() + 1, 0), "a reading at the end lacks an update");
    }
  }

 private:
  using Values = std::array<double, kMostElements>;

  int turns(int thread) const { return thread < plan_.again ? 2 : 1; }
  int number(int thread, int turn) const { return turn == 0 ? thread : plan_.updaters + thread; }
  int last() const { return plan_.updaters + std::min(plan_.again, plan_.updaters); }  // the last update

  // The thread of an update, and whether the update changes this element.
  int thread_of(int update) const {
    if (update == last()) return plan_.updaters;
    return update < plan_.updaters ? update : update - plan_.updaters;
  }
  bool changes(int update, std::size_t element) const {
    const unsigned rows = plan_.rows[static_cast<std::size_t>(thread_of(update))];
    return rows == 0 || (rows >> element & 1) != 0;
  }

  // The value of an element that contains the first `updates` of all updates.
  double sum_of(int updates, std::size_t element) const {
    double sum = 0;
    for (int update = 0; update < updates; ++update) {
      if (changes(update, element)) sum += Updates::unit(update);
    }
    return sum;
  }

  void update(int thread, int update) {
    write_element(&notes_[static_cast<std::size_t>(update)], 1.0, false);
    Updates updates(update, plan_.rows[static_cast<std::size_t>(thread)]);
    GradientDescent<double> descent = updates.of(plan_);
    require(!plan_.fresh_gradient || descent.rows == nullptr, "fresh gradients are of the whole variable");
    if (plan_.fresh_gradient) {
      // As in a worker: the gradient of the next step reuses the memory of this one's.
      Values& gradient = gradients_[static_cast<std::size_t>(thread)];
      for (std::size_t i = 0; i < plan_.elements; ++i) write_element(&gradient[i], descent.delta[i], false);
      descent.delta = std::span(gradient).first(plan_.elements);
      descent.kernel = fresh_kernel<double>;
    }
    strategy_->apply(region_, descent, stats_[static_cast<std::size_t>(thread)]);
  }

  void require_own(int thread, const Values& values) const {
    for (std::size_t i = 0; i < plan_.elements; ++i) {
      for (int turn = 0; turn < turns(thread); ++turn) {
        require(
            !changes(number(thread, turn), i) || is_subset(Updates::unit(number(thread, turn)), values[i]),
            "a thread does not see its own update");
      }
    }
  }

  // A thread that sees an update is ordered after the thread that made it, and sees what that thread did
  // before. Of each update, checked at the first element of a block that it changes.
  void check_notes(std::size_t element, double value) {
    const std::size_t first = element - element % plan_.block;
    for (int update = 0; update <= last(); ++update) {
      if (!is_subset(Updates::unit(update), value)) continue;
      bool is_checked = false;
      for (std::size_t before = first; before < element; ++before) is_checked |= changes(update, before);
      if (is_checked) continue;
      read_element(&notes_[static_cast<std::size_t>(update)], false);
      if (update < plan_.updaters || update == last()) continue;
      require(is_subset(Updates::unit(update - plan_.updaters), value),
              "an update came before an earlier one");
    }
  }

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
      require(is_subset(seen[i], sum_of(last() + 1, i)), "a value that no set of updates gives");
      check_whole(seen, i);
      check_notes(i, seen[i]);
    }
    return seen;
  }

  // All elements of a block that an update changes contain it, or none does.
  void check_whole(const Values& seen, std::size_t element) const {
    for (int update = 0; update <= last(); ++update) {
      if (!changes(update, element)) continue;
      const double unit = Updates::unit(update);
      for (std::size_t before = element - element % plan_.block; before < element; ++before) {
        require(!changes(update, before) || is_subset(unit, seen[element]) == is_subset(unit, seen[before]),
                "a reading has parts of an update");
      }
    }
  }

  // Every element contains the first `updates` of all updates once, as far as they change it.
  void check_sum(int updates) {
    if constexpr (requires { strategy_->settle(region_); }) strategy_->settle(region_);
    for (std::size_t i = 0; i < plan_.elements; ++i) {
      const double sum = sum_of(updates, i);
      require(elements_[i] == sum, elements_[i] < sum ? "an update is lost" : "an update is doubled");
    }
  }

  const Plan plan_;
  Memory memory_;
  const std::span<double> elements_;
  Own region_;
  std::unique_ptr<S> strategy_;
  std::array<ThreadStats, kMostThreads> stats_;
  std::array<Values, kMostThreads> gradients_{};
  std::array<double, 2 * kMostThreads> notes_{};  // each is written before an update, and not atomic
};

// Explores all schedules of `plan`; `make()` returns the strategy as a unique_ptr.
template <class Make>
Report check_consistency(const Plan& plan, const Make& make, const Limits& limits = {}) {
  using S = typename decltype(make())::element_type;
  return explore(
      [&] {
        const auto test = std::make_shared<UnderTest<S>>(plan, make);
        Program program;
        for (int thread = 0; thread < plan.updaters; ++thread) {
          program.threads.push_back([=] { test->update(thread); });
        }
        for (int reader = 0; reader < plan.readers; ++reader) {
          program.threads.push_back([=] { test->read_again(plan.updaters + 1 + reader); });
        }
        program.after = [=] { test->at_the_end(); };
        return program;
      },
      limits);
}

template <class S>
Report check_consistency(const Plan& plan, const Limits& limits = {}) {
  return check_consistency(plan, [] { return std::make_unique<S>(); }, limits);
}

// Prints one line for docs/proofs.md.
inline void print(const std::string& what, const Report& report) {
  std::printf("%-44s %9lld interleavings, %9lld redundant, %10lld steps, %4d at most\n", what.c_str(),
              static_cast<long long>(report.interleavings), static_cast<long long>(report.redundant),
              static_cast<long long>(report.steps), report.longest);
  std::fflush(stdout);
}

}  // namespace tmflow::explore
