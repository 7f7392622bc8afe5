// The capacity of a core: how many lines the transactions of its hardware threads may touch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "tmflow/htm/emulated/line_set.hpp"
#include "tmflow/htm/emulated/machine.hpp"

namespace tmflow::htm::emulated {

inline constexpr int kNobody = -1;

// A set-associative cache with least-recently-used replacement. A thread whose transaction has written a line
// pins it: if it is evicted, that transaction cannot continue. Lines that are only read occupy space and
// evict others, and are evicted without harm.
//
// Lines of ended transactions make no difference: with this replacement, a line is evicted when as many other
// lines of its set were touched since as there are ways, whatever was there before.
class Cache {
 public:
  Cache(std::size_t sets, std::size_t ways) : sets_(sets), ways_(sets * ways), associativity_(ways) {}

  // The thread whose written line was evicted for `line`, or kNobody. `writer`: the thread whose transaction
  // writes the line; kNobody for any other access.
  int touch(Line line, int writer) {
    const std::span<Way> set = set_of(line);
    auto at = std::ranges::find(set, line, &Way::line);
    Way way{.line = line};
    int evicted = kNobody;
    if (at != set.end()) {
      way = *at;
    } else {
      --at;
      evicted = at->writer;
    }
    if (writer != kNobody) way.writer = writer;
    std::move_backward(set.begin(), at, at + 1);
    set.front() = way;
    return evicted;
  }

  // The transaction that wrote the line ends: with a commit the line stays like any other, with an abort it
  // is removed.
  void release(Line line, bool committed) {
    const std::span<Way> set = set_of(line);
    const auto at = std::ranges::find(set, line, &Way::line);
    if (at == set.end()) return;
    if (committed) {
      at->writer = kNobody;
    } else {
      std::move(at + 1, set.end(), at);
      set.back() = {};
    }
  }

 private:
  struct Way {
    Line line = 0;  // no line
    int writer = kNobody;
  };

  // The ways of the line's set, the most recently used first.
  std::span<Way> set_of(Line line) {
    return std::span(ways_).subspan((line % sets_) * associativity_, associativity_);
  }

  std::size_t sets_;
  std::vector<Way> ways_;
  std::size_t associativity_;
};

// A core of a machine, with either kind of capacity. Not thread-safe.
class Core {
 public:
  explicit Core(const Machine& machine)
      : reads_fill_(machine.reads_fill), entries_(machine.entries), cache_(machine.sets, machine.ways) {}

  // The thread whose transaction no longer fits, or kNobody. `thread`: the thread whose transaction touches
  // the line, or kNobody outside of one; `is_new`: whether it touches the line for the first time.
  int touch(Line line, int thread, bool write, bool is_new) {
    if (entries_ > 0) {
      if (thread == kNobody || !is_new) return kNobody;
      return ++used_ > entries_ ? thread : kNobody;
    }
    return write || reads_fill_ ? cache_.touch(line, write ? thread : kNobody) : kNobody;
  }

  // A transaction that has touched `lines` ends.
  void release(const LineSet& lines, bool committed) {
    if (entries_ > 0) {
      used_ -= lines.size();
    } else {
      lines.for_each_written([&](Line line) { cache_.release(line, committed); });
    }
  }

 private:
  bool reads_fill_;
  std::size_t entries_;
  std::size_t used_ = 0;
  Cache cache_;
};

}  // namespace tmflow::htm::emulated
