// The values that a place has held, and those that a thread can still load.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "clock.hpp"

namespace tmflow::explore {

// A store, with its order in C++.
struct Stored {
  int writer;           // -1: the value was there before the first step
  std::uint32_t at;     // the writer's clock at the store
  std::uint64_t bits;   //
  std::size_t changes;  // how many stores up to this one changed the place
  Clock released;       // what a load that acquires it gets
};

// The modification order of a place is the order of the schedule. A load may give the newest value or an
// older one (C++20, 6.9.2.2, coherence), but none that was overwritten by a store which happens before the
// load, and none older than the value of a load that happens before this one.
class History {
 public:
  bool empty() const { return stores_.empty(); }
  void store(const Stored& stored) { stores_.push_back(stored); }

  // Records that `thread`, at this time of its clock, saw the store that `age` stores have followed.
  void look(int thread, std::uint32_t at, int age) { looks_.push_back({thread, at, index(age)}); }

  const Stored& of_age(int age) const { return stores_[index(age)]; }

  // The greatest age that a load can have. A store limits it already if it is visible.
  int oldest(const Clock& happened, const Clock& visible) const {
    std::size_t first = stores_.size() - 1;
    for (; first > 0; --first) {
      const Stored& stored = stores_[first];
      if (stored.at <= happened[stored.writer] || stored.at <= visible[stored.writer]) break;
    }
    for (const Look& look : looks_) {
      if (look.at <= happened[look.thread] && look.store > first) first = look.store;
    }
    return static_cast<int>(stores_.size() - 1 - first);
  }

 private:
  struct Look {
    int thread;
    std::uint32_t at;
    std::size_t store;
  };

  std::size_t index(int age) const { return stores_.size() - 1 - static_cast<std::size_t>(age); }

  std::vector<Stored> stores_;  // the first one is the initial value
  std::vector<Look> looks_;
};

}  // namespace tmflow::explore
