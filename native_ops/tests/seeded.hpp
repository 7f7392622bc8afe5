// Strategies that go wrong in a given update, for the tests of the audit, which must count it. mutants.hpp
// has copies of our strategies with one bug each.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>

#include "tmflow/strategies/lock.hpp"

namespace tmflow::seeded {

// Like `lock`, but the n-th update in total (n from 1), and with `repeat` every n-th, goes wrong as Bug
// defines.
template <class Bug>
class Faulty {
 public:
  Faulty(int n, bool repeat, Bug bug) : n_(n), repeat_(repeat), bug_(bug) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const int number = ++count_;
    if (number == n_ || (repeat_ && number % n_ == 0)) {
      const std::lock_guard held(region.mutex());
      bug_(region.memory(Holding::mutex), update);
      stats.count_update();
    } else {
      Lock().apply(region, update, stats);
    }
  }

 private:
  const int n_;
  const bool repeat_;
  const Bug bug_;
  std::atomic<int> count_{0};
};

struct Drop {
  template <class Memory, class Update>
  void operator()(Memory, const Update&) const {}
};

struct Double {
  template <class Memory, class Update>
  void operator()(Memory memory, const Update& update) const {
    update(memory, 0, memory.size());
    update(memory, 0, memory.size());
  }
};

// The update of element `from` is applied to element `to`.
struct Misplace {
  std::size_t from, to;

  template <class Memory, class Update>
  void operator()(Memory memory, const Update& update) const {
    update(memory, 0, from);
    update(memory, from + 1, memory.size() - from - 1);
    memory[to] -= update.alpha * update.delta[from];
  }
};

}  // namespace tmflow::seeded
