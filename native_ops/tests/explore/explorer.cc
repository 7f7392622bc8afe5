// The explorer: threads as fibers, one of which runs at a time, and the choice of the next one.
#include "explorer.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <exception>
#include <stdexcept>

#include "arena.hpp"
#include "fiber.hpp"
#include "places.hpp"
#include "schedule.hpp"
#include "search.hpp"

namespace tmflow::explore {
namespace {

// Every thread stops before its next step, which it has announced. A thread that reaches a step asks which
// thread makes the next one, and switches to that thread or continues.
class Explorer {
 public:
  explicit Explorer(const Limits& limits)
      : limits_(limits), search_(limits.reduces), orders_(search_, limits.late) {}

  Report explore(const std::function<Program()>& make) {
    do {
      run_once(make);
      report_.steps += search_.steps();
      report_.longest = std::max(report_.longest, search_.steps());
      if (!report_.failure.empty()) return report_;
      if (report_.interleavings + report_.redundant >= limits_.executions) return report_;
    } while (search_.next());
    report_.finished = true;
    return report_;
  }

  void take_turn(const Operation& operation) {
    pending_[index(running_)] = operation;
    if (starting_) {
      swapcontext(&fibers_[index(running_)].context(), &main_);
    } else {
      hand_over(choose());
    }
  }

  void done(const Effect& effect) {
    const Operation& operation = pending_[index(running_)];
    const void* const address = operation.place < 0 ? nullptr : orders_.address_of(operation.place);
    schedule_.add({running_, operation, address, effect});
    const char* const wrong = orders_.made(running_, operation, effect);
    if (wrong != nullptr) fail(wrong);
  }

  std::uint64_t done_loading(std::uint64_t newest, bool is_float) {
    const Operation& operation = pending_[index(running_)];
    const int oldest = orders_.oldest(running_, operation, newest);
    const int age = oldest == 0 ? 0 : search_.choose_age(oldest);
    const std::uint64_t bits = age == 0 ? newest : orders_.stored(operation.place, age);
    done({.wrote = false, .changed = false, .bits = bits, .is_float = is_float, .age = age});
    return bits;
  }

  [[noreturn]] void fail(std::string_view what) {
    report_.failure = (running_ < 0 ? "" : "thread " + std::to_string(running_) + ": ") + std::string(what) +
                      "\nschedule:\n" + schedule_.text();
    for (;;) leave();
  }

  int running() const { return running_; }
  Orders& orders() { return orders_; }
  Schedule& schedule() { return schedule_; }

 private:
  static std::size_t index(int thread) { return static_cast<std::size_t>(thread); }

  void run_once(const std::function<Program()>& make) {
    search_.restart();
    schedule_.restart();
    arena::clear();
    arena::use(true);
    auto* const program = new Program(make());
    arena::use(false);
    threads_ = static_cast<int>(program->threads.size()) + (program->after ? 1 : 0);
    if (threads_ > kMostThreads) throw std::invalid_argument("too many threads to explore");
    orders_.restart(threads_);
    ended_ = 0;
    completed_ = false;
    start(*program);
    running_ = -1;
    const int first = choose();
    if (first >= 0) {
      running_ = first;
      arena::use(true);
      swapcontext(&main_, &fibers_[index(first)].context());
      arena::use(false);
    }
    running_ = -1;
    if (!completed_) return;
    arena::use(true);
    delete program;
    arena::use(false);
  }

  // Runs every thread up to its first step.
  void start(const Program& program) {
    starting_ = true;
    after_ = program.after ? threads_ - 1 : -1;
    while (fibers_.size() < index(threads_)) fibers_.emplace_back();
    for (running_ = 0; running_ < threads_; ++running_) {
      const auto& body = running_ == after_ ? program.after : program.threads[index(running_)];
      fibers_[index(running_)].prepare([this, &body, is_after = running_ == after_] { run(body, is_after); });
      arena::use(true);
      fibers_[index(running_)].enter_from(main_);
      arena::use(false);
    }
    starting_ = false;
  }

  // Runs a thread from its begin to its end.
  void run(const std::function<void()>& body, bool is_after) {
    if (is_after) {
      explore::take_turn({.kind = Kind::begin});
      explore::done({});
    }
    try {
      body();
    } catch (const std::exception& thrown) {
      explore::fail(std::string("an exception left it: ") + thrown.what());
    }
    const arena::Outside outside;
    ended_ |= just(running_);
    if (starting_) {
      for (;;) leave();
    }
    hand_over(choose());
  }

  void leave() { swapcontext(&fibers_[index(running_)].context(), &main_); }

  // Switches to the chosen thread, or ends the execution if none was chosen.
  void hand_over(int chosen) {
    const int self = running_;
    if (chosen < 0) {
      for (;;) leave();
    }
    if (chosen == self) return;
    running_ = chosen;
    swapcontext(&fibers_[index(self)].context(), &fibers_[index(chosen)].context());
  }

  bool can_go_on(int thread) const {
    if (has(ended_, thread)) return false;
    switch (pending_[index(thread)].kind) {
      case Kind::begin:
        return (ended_ | just(thread)) == just(threads_) - 1;
      case Kind::wait:
        return orders_.has_news(thread);
      case Kind::lock:
        return !orders_.is_taken(pending_[index(thread)].place);
      default:
        return true;
    }
  }

  // The thread that makes the next step; -1 if the execution is over.
  int choose() {
    Threads enabled = 0;
    for (int thread = 0; thread < threads_; ++thread) {
      if (can_go_on(thread)) enabled |= just(thread);
    }
    if (enabled == 0) {
      if (ended_ == just(threads_) - 1) {
        completed_ = true;
        ++report_.interleavings;
      } else {
        stop("deadlock: every thread that has not ended waits");
      }
      return -1;
    }
    if (search_.steps() >= limits_.steps) {
      stop("livelock: more than " + std::to_string(limits_.steps) + " steps");
      return -1;
    }
    switch (search_.choose(enabled, running_)) {
      case Search::Choice::none_awake:
        ++report_.redundant;
        return -1;
      case Search::Choice::differs:
        stop("the program is not the same each time: it depends on more than the schedule");
        return -1;
      case Search::Choice::made:
        break;
    }
    const int chosen = search_.chosen();
    search_.fall_asleep([&](int thread) { return are_independent(thread, chosen); });
    return chosen;
  }

  bool are_independent(int one, int other) const {
    const Operation &of_one = pending_[index(one)], &of_other = pending_[index(other)];
    return orders_.independent(one, of_one, of_other) && orders_.independent(other, of_other, of_one);
  }

  void stop(const std::string& what) {
    report_.failure = what + "\nschedule:\n" + schedule_.text();
    for (int thread = 0; thread < threads_; ++thread) {
      if (has(ended_, thread)) continue;
      const Operation& next = pending_[index(thread)];
      const void* const address = next.place < 0 ? nullptr : orders_.address_of(next.place);
      report_.failure +=
          "next  thread " + std::to_string(thread) + "  " + schedule_.describe(next, address, nullptr) + "\n";
    }
  }

  const Limits limits_;
  Search search_;
  Orders orders_;
  Schedule schedule_;
  Report report_;

  int threads_ = 0, after_ = -1, running_ = -1;
  bool starting_ = false, completed_ = false;
  Threads ended_ = 0;
  std::array<Operation, kMostThreads> pending_{};
  std::deque<Fiber> fibers_;
  ucontext_t main_{};
};

Explorer* explorer = nullptr;  // of the exploration in progress

}  // namespace

Report explore(const std::function<Program()>& make, const Limits& limits) {
  Explorer own(limits);
  explorer = &own;
  const Report report = own.explore(make);
  explorer = nullptr;
  return report;
}

int running_thread() noexcept { return explorer == nullptr ? -1 : explorer->running(); }

int place_at(const void* address) {
  if (running_thread() < 0) return -1;
  const arena::Outside outside;
  return explorer->orders().place_at(address);
}

void take_turn(const Operation& operation) {
  if (running_thread() < 0) return;
  const arena::Outside outside;
  explorer->take_turn(operation);
}

void done(const Effect& effect) {
  if (running_thread() < 0) return;
  const arena::Outside outside;
  explorer->done(effect);
}

std::uint64_t done_loading(std::uint64_t newest, bool is_float) {
  if (running_thread() < 0) return newest;
  const arena::Outside outside;
  return explorer->done_loading(newest, is_float);
}

void wait() {
  if (running_thread() < 0 || !explorer->orders().watches(running_thread())) return;
  take_turn({.kind = Kind::wait});
  done({});
}

void fence(std::memory_order order) {
  if (running_thread() < 0) return;
  if (order == std::memory_order_seq_cst && explorer->orders().can_be_late()) {
    static constexpr char all_fences = 0;  // the place where all fences meet
    take_turn({.kind = Kind::fence, .order = order, .place = place_at(&all_fences)});
    return done({.wrote = true, .changed = false, .bits = 0});
  }
  const arena::Outside outside;
  explorer->orders().fence(running_thread(), order);
}

void fail(std::string_view what) {
  const arena::Outside outside;
  explorer->fail(what);
}

void name(const void* begin, std::size_t bytes, std::size_t stride, std::string_view name) {
  const arena::Outside outside;
  explorer->schedule().name(begin, bytes, stride, name);
}

void keep(const void* to) {
  if (running_thread() < 0) return;
  const arena::Outside outside;
  explorer->orders().keep(to);
}

void check_kept(const void* to) {
  if (!explorer->orders().is_ordered(running_thread(), to)) {
    fail("data race: it kept what it read, and nothing orders it after whoever wrote that");
  }
}

}  // namespace tmflow::explore
