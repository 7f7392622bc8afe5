// The tree of schedules, explored depth first, without redundant branches.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "clock.hpp"

namespace tmflow::explore {

using Threads = std::uint32_t;  // a set, by number
constexpr Threads just(int thread) noexcept { return Threads{1} << thread; }
constexpr bool has(Threads threads, int thread) noexcept { return (threads & just(thread)) != 0; }
constexpr int first_of(Threads threads) noexcept { return std::countr_zero(threads); }

// A state, given by the steps that lead to it: the threads that are enabled there, and those that must be
// tried.
struct Node {
  int chosen;
  Threads enabled;
  Threads asleep;      // their next steps from here were explored elsewhere
  Threads to_explore;  // a source set, as it grows
  Threads done = 0;
  int age = 0;     // of the value that the chosen thread loads in its step
  int oldest = 0;  // the last age to try
};

// Source-set DPOR (Abdulla et al., POPL 2014, algorithm 1). One branch is enough at first. If a step turns
// out to race with an earlier one (dependent, and not ordered by a step between them), a thread is added to
// the earlier state that leads to the opposite order, unless such a thread is already there.
//
// Steps that were explored from a state need not be explored again below its other branches, until a step
// comes that they depend on: sleep sets (Godefroid).
class Search {
 public:
  explicit Search(bool reduces) : reduces_(reduces) {}

  // A step of the execution in progress: its thread, and the steps that it comes after (for each thread, the
  // number of its last such step plus 1).
  struct Event {
    int thread;
    Clock after;
  };

  void restart() {
    events_.clear();
    asleep_ = 0;
  }

  enum class Choice { made, none_awake, differs };

  // Chooses the next step. `running` continues if it can, so that schedules have few switches.
  Choice choose(Threads enabled, int running) {
    const std::size_t depth = events_.size();
    if (depth < path_.size()) return path_[depth].enabled == enabled ? Choice::made : Choice::differs;
    const Threads awake = enabled & ~asleep_;
    if (awake == 0) return Choice::none_awake;
    const int chosen = running >= 0 && has(awake, running) ? running : first_of(awake);
    path_.push_back({chosen, enabled, asleep_, reduces_ ? just(chosen) : enabled});
    return Choice::made;
  }

  int chosen() const { return path_[events_.size()].chosen; }

  // The age, from 0 to `oldest`, of the value that the current step loads. Each age is tried in turn.
  int choose_age(int oldest) {
    Node& node = path_[events_.size()];
    node.oldest = oldest;
    return node.age;
  }

  // Sets the threads that sleep in the next state: those that are `independent` of this step.
  template <class Independent>
  void fall_asleep(const Independent& independent) {
    const Node& node = path_[events_.size()];
    Threads left = (node.asleep | node.done) & ~just(node.chosen);
    asleep_ = 0;
    if (!reduces_) return;
    for (; left != 0; left &= left - 1) {
      if (independent(first_of(left))) asleep_ |= just(first_of(left));
    }
  }

  void add(const Event& event) { events_.push_back(event); }
  int steps() const { return static_cast<int>(events_.size()); }

  bool comes_before(int step, const Clock& after) const {
    const Event& event = events_[static_cast<std::size_t>(step)];
    return after[event.thread] > static_cast<std::uint32_t>(step);
  }
  const Event& event(int step) const { return events_[static_cast<std::size_t>(step)]; }

  // `thread` is about to make a step that races with `earlier` and comes after `after`. Makes sure that the
  // opposite order is explored: the thread that goes first there must be one that can begin the steps made
  // since, without those that come after `earlier`.
  void race(int earlier, int thread, const Clock& after) {
    if (!reduces_) return;
    Node& node = path_[static_cast<std::size_t>(earlier)];
    Threads met = 0, initial = 0;
    std::array<int, kMostThreads> first{};
    const auto meet = [&](int step, int who, const Clock& clock) {
      if (has(met, who)) return;
      bool begins = true;
      for (Threads others = met; others != 0; others &= others - 1) {
        const int other = first_of(others);
        begins = begins && clock[other] <= static_cast<std::uint32_t>(first[static_cast<std::size_t>(other)]);
      }
      met |= just(who);
      first[static_cast<std::size_t>(who)] = step;
      if (begins) initial |= just(who);
    };
    for (int step = earlier + 1; step < steps(); ++step) {
      const Event& event = events_[static_cast<std::size_t>(step)];
      if (!comes_before(earlier, event.after)) meet(step, event.thread, event.after);
    }
    meet(steps(), thread, after);
    initial &= node.enabled;
    if (initial == 0) {
      node.to_explore |= node.enabled;
    } else if ((initial & node.to_explore) == 0) {
      node.to_explore |= has(initial, thread) ? just(thread) : just(first_of(initial));
    }
  }

  // Moves to the next schedule; false if there is none.
  bool next() {
    while (!path_.empty()) {
      Node& node = path_.back();
      if (node.age < node.oldest) {
        ++node.age;
        return true;
      }
      node.done |= just(node.chosen);
      node.age = node.oldest = 0;
      const Threads left = node.to_explore & ~node.done & ~node.asleep;
      if (left != 0) {
        node.chosen = first_of(left);
        return true;
      }
      path_.pop_back();
    }
    return false;
  }

 private:
  const bool reduces_;
  std::vector<Node> path_;
  std::vector<Event> events_;
  Threads asleep_ = 0;
};

}  // namespace tmflow::explore
