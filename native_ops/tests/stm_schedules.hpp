// Forced schedules of two threads, one for each anomaly. Each returns whether the STM prevented the anomaly:
// a sound one does, a broken one does not.
#pragma once

#include <gtest/gtest.h>

#include "stm_tools.hpp"

namespace tmflow::stm {

// x + y is 0, and another thread moves 1 from y to x.
template <class Design, class Policy = Sound>
void transfer(Domain& domain, ThreadStats& stats, Cells& cells) {
  run<Design, Suicide, Policy>(domain, stats, [&](auto& transaction) {
    return add(transaction, cells.x.value, 1L) && add(transaction, cells.y.value, -1L);
  });
}

// Whether x and y are of one state in every run of a body that reads both. `between` runs once, between the
// reads.
template <class Reader, class Policy, class Between>
bool reads_one_state(Domain& domain, Cells& cells, const Between& between) {
  ThreadStats stats;
  bool sound = true, first = true;
  run<Reader, Suicide, Policy>(domain, stats, [&](auto& transaction) {
    long x = 0, y = 0;
    if (!transaction.load(&cells.x.value, x)) return false;
    if (std::exchange(first, false)) between();
    if (!transaction.load(&cells.y.value, y)) return false;
    sound = sound && x + y == 0;
    return true;
  });
  return sound;
}

// A "zombie": the other thread commits between the reads of x and y. No run of the body may see x and y of
// different states, whether it commits or not.
template <class Reader, class Writer, class Policy>
bool no_zombie_between_reads() {
  Domain domain(1024);
  Cells cells;
  Other other;
  const bool sound = reads_one_state<Reader, Policy>(
      domain, cells, [&] { other.start([&](ThreadStats& own) { transfer<Writer>(domain, own, cells); }); });
  other.join();
  return sound;
}

// A zombie that locks: the other thread commits after this one has read x. This one then writes the neighbour
// of y, so that it owns y's stripe, and reads y. It must not see the new y with the old x, whether it commits
// or not.
template <class Design, class Policy>
bool no_zombie_under_its_own_lock() {
  Domain domain(1024);
  Cells cells;
  Other other;
  ThreadStats stats;
  bool sound = true, first = true;
  run<Design, Suicide, Policy>(domain, stats, [&](auto& transaction) {
    long x = 0, y = 0;
    if (!transaction.load(&cells.x.value, x)) return false;
    if (std::exchange(first, false)) {
      other.start([&](ThreadStats& own) { transfer<Design>(domain, own, cells); });
    }
    if (!transaction.store(&cells.y.neighbour, 1L) || !transaction.load(&cells.y.value, y)) return false;
    sound = sound && x + y == 0;
    return true;
  });
  other.join();
  return sound;
}

// A torn read: the other thread commits after the reader has checked the lock of y, and before it reads y.
template <class Reader, class Writer, class Base>
bool no_torn_read() {
  using Policy = Scripted<Base>;
  Domain domain(1024);
  Cells cells;
  Other other;
  const bool sound = reads_one_state<Reader, Policy>(domain, cells, [&] {
    Policy::once(Point::lock_seen,
                 [&] { other.start([&](ThreadStats& own) { transfer<Writer>(domain, own, cells); }); });
  });
  other.join();
  return sound;
}

// A dirty read of a word that an aborting transaction has written: the reader checks the lock; the writer
// takes it and writes; the reader reads; the writer gives up and releases the lock; the reader checks it
// again.
template <class Reader, class Base>
bool no_dirty_read() {
  using Policy = Scripted<Base>;
  Domain domain(1024);
  long x = 0, seen = 0;
  ThreadStats stats, others;
  std::atomic<int> step{0};
  const auto await = [&](int awaited) {
    while (step != awaited) give_way();
  };
  std::thread writer;
  Policy::once(Point::lock_seen, [&] {
    writer = std::thread([&] {
      run<WriteThrough, Suicide, Base>(domain, others, [&](auto& transaction) {
        EXPECT_TRUE(transaction.store(&x, 5L));
        step = 1;
        await(2);
        return transaction.abort();
      });
      step = 3;
    });
    await(1);
    Policy::once(Point::word_seen, [&] {
      step = 2;
      await(3);
    });
  });
  run<Reader, Suicide, Policy>(domain, stats, [&](auto& transaction) { return transaction.load(&x, seen); });
  writer.join();
  return seen == 0;
}

// The same word, written by a transaction in progress: a reader never sees it, or only after it is committed.
template <class Design, class Policy>
bool no_uncommitted_read() {
  Domain domain(1024);
  long x = 0, seen = 0;
  ThreadStats stats;
  Other other;
  run<Design, Suicide, Policy>(domain, stats, [&](auto& transaction) {
    EXPECT_TRUE(transaction.store(&x, 5L));
    other.start([&](ThreadStats& own) {
      run<Reading>(domain, own, [&](auto& reader) { return reader.load(&x, seen); });
    });
    return transaction.abort();
  });
  other.join();
  return seen == 0 && x == 0;
}

// A lost update: the other thread adds 1 to x between the read and the write of this one.
template <class Design, class Policy>
bool no_lost_update() {
  Domain domain(1024);
  long x = 0;
  ThreadStats stats;
  Other other;
  bool first = true;
  run<Design, Suicide, Policy>(domain, stats, [&](auto& transaction) {
    long value = 0;
    if (!transaction.load(&x, value)) return false;
    if (std::exchange(first, false)) {
      other.start([&](ThreadStats& own) { increment<Design, Policy>(domain, own, x); });
    }
    return transaction.store(&x, value + 1);
  });
  other.join();
  return x == 2;
}

// A lost update at the very end: the other thread adds 1 to x between the last two parts of a commit.
template <class Design, class Base>
bool no_lost_update_at_the_end() {
  using Policy = Scripted<Base>;
  Domain domain(1024);
  long x = 0;
  ThreadStats stats;
  Other other;
  Policy::once(Point::half_ended,
               [&] { other.start([&](ThreadStats& own) { increment<Design>(domain, own, x); }); });
  increment<Design, Policy>(domain, stats, x);
  other.join();
  return x == 2;
}

// Write skew: each of two transactions reads x and y, finds that one of them may be removed, and removes a
// different one.
template <class Design, class Policy>
bool no_write_skew() {
  Domain domain(1024);
  Cells cells{{1}, {1}, {0}};
  const auto take_away = [&](ThreadStats& stats, long& own, const std::function<void()>& between) {
    run<Design, Suicide, Policy>(domain, stats, [&](auto& transaction) {
      long x = 0, y = 0;
      if (!transaction.load(&cells.x.value, x) || !transaction.load(&cells.y.value, y)) return false;
      between();
      return x + y < 2 || transaction.store(&own, 0L);
    });
  };
  ThreadStats stats;
  Other other;
  bool first = true;
  take_away(stats, cells.x.value, [&] {
    if (!std::exchange(first, false)) return;
    other.start([&](ThreadStats& own) { take_away(own, cells.y.value, [] {}); });
  });
  other.join();
  return cells.x.value + cells.y.value == 1;
}

}  // namespace tmflow::stm
