// The places in memory where threads meet, and the orders between their steps.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "clock.hpp"
#include "explorer.hpp"
#include "history.hpp"
#include "search.hpp"

namespace tmflow::explore {

struct Place {
  const void* address;

  // For the reduction: the last step that wrote here, and the last read of each thread since then.
  int last_write = -1;
  Clock write_after;
  std::array<int, kMostThreads> reads;  // -1: none

  // For a mutex: whether it is taken, and the step that took it last.
  bool is_taken = false;
  int last_lock = -1;

  // For waiting threads: the steps that changed the place.
  std::vector<int> changes;

  // For C++: what an acquiring load gets; for elements, who wrote last and when, and who has read since.
  Clock released;
  int writer = -1;
  std::uint32_t written_at = 0;
  Clock read_at;

  // If threads may be late: all stores to this place, and the threads that are late here.
  History history;
  Threads late = 0;

  explicit Place(const void* where) : address(where) { reads.fill(-1); }
};

struct Watched {
  int place;
  std::size_t from;  // the first change that would be new
};

// What the explorer knows about a thread.
struct ThreadState {
  Clock order;     // for the reduction: the steps that come before its next one in every schedule
  Clock happened;  // C++'s happens-before
  Clock unfenced;  // what an acquire fence would get
  Clock fenced;    // what a relaxed store gives: what happened before the last release fence
  Clock visible;   // what happened before seq_cst fences that precede one of its own
  std::vector<Watched> watched;
};

constexpr bool reads(Kind kind) noexcept {
  return kind == Kind::load || kind == Kind::update || kind == Kind::compare || kind == Kind::read ||
         kind == Kind::lock;
}
constexpr bool may_write(Kind kind) noexcept {
  return kind == Kind::store || kind == Kind::update || kind == Kind::compare || kind == Kind::write ||
         kind == Kind::lock || kind == Kind::unlock || kind == Kind::fence;
}
constexpr bool acquires(std::memory_order order) noexcept {
  return order == std::memory_order_acquire || order == std::memory_order_consume ||
         order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
constexpr bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel ||
         order == std::memory_order_seq_cst;
}

// The orders of one execution.
class Orders {
 public:
  Orders(Search& search, int late) : search_(search), late_limit_(late) {}

  void restart(int threads) {
    places_.clear();
    by_address_.clear();
    kept_.clear();
    fences_ = {};
    late_ = 0;
    threads_.assign(static_cast<std::size_t>(threads), {});
  }

  int place_at(const void* address) {
    const auto [found, added] = by_address_.try_emplace(address, static_cast<int>(places_.size()));
    if (added) places_.emplace_back(address);
    return found->second;
  }

  const void* address_of(int place) const { return at(place).address; }

  // Whether it has read anything since its last wait.
  bool watches(int thread) const { return !of(thread).watched.empty(); }

  // Whether `thread` can continue from its wait.
  bool has_news(int thread) const {
    for (const Watched& watched : of(thread).watched) {
      if (first_news(thread, watched) >= 0) return true;
    }
    return false;
  }

  bool can_be_late() const { return late_limit_ > 0; }

  // How many stores the next load of `thread` can miss at most; the place holds `newest`.
  int oldest(int thread, const Operation& operation, std::uint64_t newest) {
    const bool is_load = operation.kind == Kind::load && operation.order != std::memory_order_seq_cst;
    const bool is_racy_read = operation.kind == Kind::read && operation.racy;
    if (!can_be_late() || (!is_load && !is_racy_read)) return 0;
    Place& place = at(operation.place);
    begin_history(place, newest);
    if (!has(place.late, thread) && late_ == late_limit_) return 0;
    return place.history.oldest(of(thread).happened, of(thread).visible);
  }
  std::uint64_t stored(int place, int age) const { return at(place).history.of_age(age).bits; }

  // Whether `thread` must wait for the mutex.
  bool is_taken(int place) const { return at(place).is_taken; }

  // Whether two pending steps have the same effect in either order.
  bool independent(int thread, const Operation& operation, const Operation& other) const {
    if (operation.kind == Kind::wait) {
      if (!may_write(other.kind)) return true;
      for (const Watched& watched : of(thread).watched) {
        if (watched.place == other.place) return false;
      }
      return true;
    }
    return operation.place != other.place || operation.place < 0 ||
           (!may_write(operation.kind) && !may_write(other.kind));
  }

  // Records that the step was made. Returns what is wrong with it, or nullptr.
  const char* made(int thread, const Operation& operation, const Effect& effect) {
    ThreadState& self = of(thread);
    const int step = search_.steps();
    if (operation.kind == Kind::begin) {
      for (const ThreadState& other : threads_) {
        self.order.join(other.order);
        self.happened.join(other.happened);
      }
    } else if (operation.kind == Kind::wait) {
      order_wait(thread, step);
    } else {
      order_access(thread, operation, effect);
    }
    self.order[thread] = static_cast<std::uint32_t>(step) + 1;
    ++self.happened[thread];
    search_.add({thread, self.order});
    if (operation.place < 0) return nullptr;
    Place& place = at(operation.place);
    if (can_be_late() && operation.kind != Kind::fence) notice_age(thread, effect, place);
    if (effect.wrote) {
      place.last_write = step;
      place.write_after = self.order;
      place.reads.fill(-1);
    } else {
      place.reads[static_cast<std::size_t>(thread)] = step;
    }
    if (operation.kind == Kind::lock) place.last_lock = step;
    if (operation.kind == Kind::lock || operation.kind == Kind::unlock) {
      place.is_taken = operation.kind == Kind::lock;
    } else if (reads(operation.kind)) {
      watch(self, operation.place, effect.age);
    }
    if (effect.changed) place.changes.push_back(step);
    const char* wrong = nullptr;
    if (operation.kind == Kind::fence) {
      fence(thread, operation.order);
    } else if (operation.kind == Kind::read || operation.kind == Kind::write) {
      wrong = touch(thread, operation, effect, place);
    } else {
      synchronise(self, operation, effect, place);
    }
    if (can_be_late() && effect.wrote) {
      place.history.store({thread, self.happened[thread], effect.bits, place.changes.size(), place.released});
    }
    return wrong;
  }

  void fence(int thread, std::memory_order order) {
    ThreadState& self = of(thread);
    if (acquires(order)) self.happened.join(self.unfenced);
    if (releases(order)) self.fenced = self.happened;
    if (order == std::memory_order_seq_cst) {
      self.visible.join(fences_);
      fences_.join(self.happened);
    }
  }

  // Keeps what this thread has just read.
  void keep(const void* to) { kept_[to] = read_; }

  bool is_ordered(int thread, const void* to) const {
    const auto found = kept_.find(to);
    if (found == kept_.end() || found->second.writer < 0) return true;
    return found->second.at <= of(thread).happened[found->second.writer];
  }

 private:
  struct Written {
    int writer;
    std::uint32_t at;
  };

  Place& at(int place) { return places_[static_cast<std::size_t>(place)]; }
  const Place& at(int place) const { return places_[static_cast<std::size_t>(place)]; }
  ThreadState& of(int thread) { return threads_[static_cast<std::size_t>(thread)]; }
  const ThreadState& of(int thread) const { return threads_[static_cast<std::size_t>(thread)]; }

  void watch(ThreadState& self, int place, int age) {
    for (const Watched& watched : self.watched) {
      if (watched.place == place) return;
    }
    self.watched.push_back(
        {place, age == 0 ? at(place).changes.size() : at(place).history.of_age(age).changes});
  }

  void begin_history(Place& place, std::uint64_t bits) {
    if (place.history.empty()) place.history.store({-1, 0, bits, 0, {}});
  }

  // Called before the step's own store is added.
  void notice_age(int thread, const Effect& effect, Place& place) {
    begin_history(place, effect.wrote ? effect.before : effect.bits);
    if (effect.wrote) return;
    place.history.look(thread, of(thread).happened[thread], effect.age);
    if (effect.age == 0 || has(place.late, thread)) return;
    place.late |= just(thread);
    ++late_;
  }

  int first_news(int thread, const Watched& watched) const {
    const std::vector<int>& changes = at(watched.place).changes;
    for (std::size_t i = watched.from; i < changes.size(); ++i) {
      if (search_.event(changes[i]).thread != thread) return changes[i];
    }
    return -1;
  }

  // Two steps at one place do not commute if one of them writes.
  void order_access(int thread, const Operation& operation, const Effect& effect) {
    ThreadState& self = of(thread);
    Place& place = at(operation.place);
    const Clock before = self.order;
    bool was_read = false;
    if (place.last_write >= 0) self.order.join(place.write_after);
    if (effect.wrote) {
      for (const int read : place.reads) {
        if (read < 0) continue;
        was_read = true;
        self.order.join(search_.event(read).after);
      }
      for (const int read : place.reads) {
        if (read < 0 || search_.comes_before(read, before) || is_between(read, place.reads)) continue;
        search_.race(read, thread, self.order);
      }
    }
    // A mutex can be taken only after it is released. So the opposite order is to take it before the thread
    // that took it last.
    if (operation.kind == Kind::lock) {
      if (place.last_lock < 0 || search_.comes_before(place.last_lock, before)) return;
      return search_.race(place.last_lock, thread, self.order);
    }
    // If the place was read since the write, that read orders the write before this step.
    if (was_read || place.last_write < 0 || search_.comes_before(place.last_write, before)) return;
    search_.race(place.last_write, thread, self.order);
  }

  // Whether another of the readings comes after `read`.
  bool is_between(int read, const std::array<int, kMostThreads>& readings) const {
    for (const int other : readings) {
      if (other >= 0 && other != read && search_.comes_before(read, search_.event(other).after)) return true;
    }
    return false;
  }

  // A wait reads all that it watches, and is never late. It races with a change only if another change would
  // have ended it too.
  void order_wait(int thread, int step) {
    ThreadState& self = of(thread);
    const Clock before = self.order;
    for (const Watched& watched : self.watched) {
      if (first_news(thread, watched) >= 0) self.order.join(at(watched.place).write_after);
    }
    for (const Watched& watched : self.watched) {
      if (first_news(thread, watched) < 0) continue;
      const int change = at(watched.place).last_write;
      if (!search_.comes_before(change, before) && would_end_without(change, thread)) {
        search_.race(change, thread, self.order);
      }
    }
    for (const Watched& watched : self.watched) {
      Place& place = at(watched.place);
      place.reads[static_cast<std::size_t>(thread)] = step;
      if (can_be_late()) place.history.look(thread, self.happened[thread] + 1, 0);
    }
    self.watched.clear();
  }

  bool would_end_without(int change, int thread) const {
    for (const Watched& watched : of(thread).watched) {
      const std::vector<int>& changes = at(watched.place).changes;
      for (std::size_t i = watched.from; i < changes.size(); ++i) {
        const Search::Event& event = search_.event(changes[i]);
        if (event.thread != thread && changes[i] != change && !search_.comes_before(change, event.after)) {
          return true;
        }
      }
    }
    return false;
  }

  // C++20, 6.9.2.2: a release is acquired through the stored value, or through later read-modify-writes.
  void synchronise(ThreadState& self, const Operation& operation, const Effect& effect, Place& place) {
    const bool failed = operation.kind == Kind::compare && !effect.wrote;
    const std::memory_order order = failed ? operation.failed : operation.order;
    if (reads(operation.kind)) {
      const Clock& released = effect.age == 0 ? place.released : place.history.of_age(effect.age).released;
      (acquires(order) ? self.happened : self.unfenced).join(released);
    }
    if (!effect.wrote) return;
    const Clock given = releases(order) ? self.happened : self.fenced;
    if (operation.kind == Kind::store || operation.kind == Kind::unlock) place.released = {};
    place.released.join(given);
    place.writer = -1;
  }

  // For fences, a racy read and the write that it observes act as relaxed accesses.
  const char* touch(int thread, const Operation& operation, const Effect& effect, Place& place) {
    ThreadState& self = of(thread);
    const auto ordered = [&](int other, std::uint32_t when) { return when <= self.happened[other]; };
    if (operation.kind == Kind::read) {
      if (effect.age == 0) {
        read_ = {place.writer, place.written_at};
        self.unfenced.join(place.released);
      } else {
        const Stored& stored = place.history.of_age(effect.age);
        read_ = {stored.writer, stored.at};
        self.unfenced.join(stored.released);
      }
      if (operation.racy) return nullptr;
      if (place.writer >= 0 && !ordered(place.writer, place.written_at)) {
        return "data race: it reads what another thread wrote, and nothing orders the two";
      }
      place.read_at[thread] = self.happened[thread];
      return nullptr;
    }
    const char* wrong = nullptr;
    if (!operation.racy && place.writer >= 0 && !ordered(place.writer, place.written_at)) {
      wrong = "data race: it overwrites what another thread wrote, and nothing orders the two";
    }
    for (int other = 0; !operation.racy && other < kMostThreads; ++other) {
      if (!ordered(other, place.read_at[other])) {
        wrong = "data race: it overwrites what another thread reads, and nothing orders the two";
      }
    }
    place.writer = thread;
    place.written_at = self.happened[thread];
    place.released = self.fenced;
    place.read_at = {};
    return wrong;
  }

  Search& search_;
  std::vector<Place> places_;
  std::unordered_map<const void*, int> by_address_;
  std::unordered_map<const void*, Written> kept_;
  Written read_{-1, 0};  // the writer of the value that was read last
  Clock fences_;         // what happened before the seq_cst fences so far
  const int late_limit_;
  int late_ = 0;  // pairs of a thread and a place
  std::vector<ThreadState> threads_;
};

}  // namespace tmflow::explore
