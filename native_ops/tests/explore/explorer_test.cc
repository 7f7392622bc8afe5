// The explorer itself: it finds known bugs, and counts known numbers of interleavings.
#include <gtest/gtest.h>

#include <set>

#include "arena.hpp"
#include "atom.hpp"
#include "over.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::explore {
namespace {

using Integer = Atom<int>;

// Outlives the execution.
void remember(std::set<int>& results, int result) {
  const arena::Outside outside;
  results.insert(result);
}

struct Two {
  Integer x, y;
};

void store_both(Two& two) {
  two.x.store(1);
  two.y.store(1);
}

TEST(Explorer, CountsEveryInterleavingWithoutReduction) {
  const auto two = explore([] { return over<Two>({store_both, store_both}); }, {.reduces = false});
  EXPECT_TRUE(two.finished) << two.failure;
  EXPECT_EQ(two.interleavings, 6);  // 4! / (2! 2!)
  const auto three =
      explore([] { return over<Two>({store_both, store_both, store_both}); }, {.reduces = false});
  EXPECT_EQ(three.interleavings, 90);  // 6! / (2! 2! 2!)
}

TEST(Explorer, ReductionLeavesOneOfThoseThatDifferInNothing) {
  const auto at_two_places =
      explore([] { return over<Two>({[](Two& two) { two.x.store(1); }, [](Two& two) { two.y.store(1); }}); });
  EXPECT_TRUE(at_two_places.finished);
  EXPECT_EQ(at_two_places.interleavings, 1);
  const auto at_one_place =
      explore([] { return over<Two>({[](Two& two) { two.x.store(1); }, [](Two& two) { two.x.store(2); }}); });
  EXPECT_EQ(at_one_place.interleavings, 2);
  const auto readers = explore([] {
    constexpr auto read = [](Two& two) { two.x.load(); };
    return over<Two>({[](Two& two) { two.x.store(1); }, read, read});
  });
  EXPECT_EQ(readers.interleavings, 4);  // each reader before or after the store
}

// The reduced search gives every result that all interleavings give.
struct Mixed {
  Integer x, y, z;
  int seen[3] = {};
};

std::set<int> results_of_mixed(const Limits& limits, std::int64_t& interleavings) {
  static std::set<int> results;
  results.clear();
  const auto report = explore(
      [] {
        return over<Mixed>({[](Mixed& m) {
                              m.x.store(1);
                              m.seen[0] = m.y.load() + 2 * m.z.fetch_add(1);
                            },
                            [](Mixed& m) {
                              m.y.store(1);
                              m.seen[1] = m.x.load();
                              int one = 1;
                              m.z.compare_exchange_strong(one, 3);
                            },
                            [](Mixed& m) {
                              m.seen[2] = m.z.load();
                              m.y.store(2);
                              m.seen[2] += 4 * m.x.load();
                            }},
                           [](Mixed& m) {
                             const int result = m.seen[0] + 16 * m.seen[1] + 64 * m.seen[2] +
                                                1024 * m.z.load() + 8192 * m.y.load();
                             remember(results, result);
                           });
      },
      limits);
  EXPECT_TRUE(report.finished) << report.failure;
  interleavings = report.interleavings;
  return results;
}

TEST(Explorer, ReductionLosesNoResult) {
  std::int64_t all = 0, reduced = 0;
  const auto of_all = results_of_mixed({.reduces = false}, all);
  const auto of_reduced = results_of_mixed({}, reduced);
  EXPECT_EQ(of_all, of_reduced);
  EXPECT_GT(of_all.size(), 10u);
  EXPECT_EQ(all, 1680);  // 9! / (3! 3! 3!)
  EXPECT_LT(reduced, all / 4);
}

// The same for a mutex whose state one of the threads checks.
struct Guarded {
  Mutex mutex;
  Integer x, y;
  int seen[3] = {};
};

std::set<int> results_of_guarded(const Limits& limits, std::int64_t& interleavings) {
  static std::set<int> results;
  results.clear();
  const auto report = explore(
      [] {
        return over<Guarded>({[](Guarded& it) {
                                it.seen[0] = static_cast<int>(it.mutex.word().load()) + 2 * it.y.load();
                                it.mutex.lock();
                                it.x.store(1);
                                it.mutex.unlock();
                              },
                              [](Guarded& it) {
                                it.mutex.lock();
                                it.seen[1] = it.x.load();
                                it.x.store(2);
                                it.mutex.unlock();
                                it.seen[1] += 4 * it.x.load();
                              },
                              [](Guarded& it) {
                                it.y.store(1);
                                it.mutex.lock();
                                it.seen[2] = it.x.load();
                                it.mutex.unlock();
                              }},
                             [](Guarded& it) {
                               remember(results,
                                        it.seen[0] + 4 * it.seen[1] + 64 * it.seen[2] + 256 * it.x.load());
                             });
      },
      limits);
  EXPECT_TRUE(report.finished) << report.failure;
  interleavings = report.interleavings;
  return results;
}

TEST(Explorer, ReductionLosesNoResultOfAMutex) {
  std::int64_t all = 0, reduced = 0;
  const auto of_all = results_of_guarded({.reduces = false}, all);
  const auto of_reduced = results_of_guarded({}, reduced);
  EXPECT_EQ(of_all, of_reduced);
  EXPECT_GT(of_all.size(), 15u);
  EXPECT_LT(reduced, all / 10);
}

TEST(Explorer, TriesAMutexInEachOrder) {
  const auto report = explore([] {
    constexpr auto once = [](Guarded& it) { it.mutex.lock(), it.mutex.unlock(); };
    return over<Guarded>({once, once, once});
  });
  EXPECT_TRUE(report.finished) << report.failure;
  EXPECT_EQ(report.interleavings, 6);  // 3!
}

struct Counter {
  double value = 0;
};

TEST(Explorer, FindsALostUpdateThatIsNoRaceByContract) {
  constexpr auto add = [](Counter& counter) {
    write_element(&counter.value, read_element(&counter.value, true) + 1, true);
  };
  const auto report = explore([=] {
    return over<Counter>({add, add},
                         [](Counter& counter) { require(counter.value == 2, "an update is lost"); });
  });
  EXPECT_NE(report.failure.find("an update is lost"), std::string::npos) << report.failure;
}

TEST(Explorer, FindsARace) {
  constexpr auto write = [](Counter& counter) { write_element(&counter.value, 1.0, false); };
  const auto report = explore([=] { return over<Counter>({write, write}); });
  EXPECT_NE(report.failure.find("data race"), std::string::npos);
}

template <class M>
struct Locks {
  M a, b;
};

template <class M>
void finds_a_deadlock() {
  constexpr auto in_order = [](Locks<M>& locks) {
    locks.a.lock(), locks.b.lock(), locks.b.unlock(), locks.a.unlock();
  };
  constexpr auto crosswise = [](Locks<M>& locks) {
    locks.b.lock(), locks.a.lock(), locks.a.unlock(), locks.b.unlock();
  };
  const auto wrong = explore([=] { return over<Locks<M>>({in_order, crosswise}); });
  EXPECT_NE(wrong.failure.find("deadlock"), std::string::npos) << wrong.failure;
  const auto right = explore([=] { return over<Locks<M>>({in_order, in_order, in_order}); });
  EXPECT_TRUE(right.finished) << right.failure;
}

TEST(Explorer, FindsADeadlock) {
  finds_a_deadlock<BasicSpinLock<Atom>>();
  finds_a_deadlock<Mutex>();
}

TEST(Explorer, FindsALivelock) {
  const auto report = explore(
      [] {
        return over<Two>({[](Two& two) {
          while (two.x.load() == 0) {
          }
        }});
      },
      {.steps = 100});
  EXPECT_NE(report.failure.find("livelock"), std::string::npos);
}

// A thread that waits for one of two changes is woken by either.
struct Awaited {
  Integer x, y;
  int seen = 0;
};

TEST(Explorer, WakesAWaiterByEitherOfTwo) {
  static std::set<int> results;
  results.clear();
  const auto report = explore([] {
    return over<Awaited>({[](Awaited& it) { it.x.store(1); }, [](Awaited& it) { it.y.store(1); },
                          [](Awaited& it) {
                            for (;;) {
                              it.seen = it.x.load() + 2 * it.y.load();
                              if (it.seen != 0) break;
                              wait();
                            }
                          }},
                         [](Awaited& it) { remember(results, it.seen); });
  });
  EXPECT_TRUE(report.finished) << report.failure;
  EXPECT_EQ(results, (std::set{1, 2, 3}));
}

// If no thread may be late, executions are sequentially consistent; on hardware, both may see 0.
TEST(Explorer, DoesNotSeeStoreBufferingWhereNobodyIsLate) {
  const auto report = explore([] {
    return over<Mixed>({[](Mixed& m) {
                          m.x.store(1, std::memory_order_relaxed);
                          m.seen[0] = m.y.load(std::memory_order_relaxed);
                        },
                        [](Mixed& m) {
                          m.y.store(1, std::memory_order_relaxed);
                          m.seen[1] = m.x.load(std::memory_order_relaxed);
                        }},
                       [](Mixed& m) { require(m.seen[0] + m.seen[1] > 0, "both saw 0"); });
  });
  EXPECT_TRUE(report.finished) << report.failure;
  EXPECT_EQ(report.interleavings, 3);
}

struct Message {
  double data = 0;
  Integer flag;
};

template <std::memory_order store, std::memory_order load, bool fenced = false>
Report passing() {
  return explore([] {
    return over<Message>({[](Message& message) {
                            write_element(&message.data, 1.0, false);
                            if (fenced) fence(std::memory_order_release);
                            message.flag.store(1, store);
                          },
                          [](Message& message) {
                            if (message.flag.load(load) == 0) return;
                            if (fenced) fence(std::memory_order_acquire);
                            require(read_element(&message.data, false) == 1, "the message is not there");
                          }});
  });
}

TEST(Explorer, ReportsWhetherAMessageIsOrdered) {
  constexpr auto relaxed = std::memory_order_relaxed;
  EXPECT_NE((passing<relaxed, relaxed>().failure.find("data race")), std::string::npos);
  EXPECT_NE((passing<std::memory_order_release, relaxed>().failure.find("data race")), std::string::npos);
  EXPECT_NE((passing<relaxed, std::memory_order_acquire>().failure.find("data race")), std::string::npos);
  const auto ordered = passing<std::memory_order_release, std::memory_order_acquire>();
  EXPECT_TRUE(ordered.finished) << ordered.failure;
  const auto by_fences = passing<relaxed, relaxed, true>();
  EXPECT_TRUE(by_fences.finished) << by_fences.failure;
}

TEST(Explorer, SaysWhenALimitCutItOff) {
  const auto report =
      explore([] { return over<Two>({store_both, store_both}); }, {.executions = 3, .reduces = false});
  EXPECT_FALSE(report.finished);
  EXPECT_EQ(report.failure, "");
}

TEST(Explorer, NoticesAProgramThatDependsOnMoreThanTheSchedule) {
  static int runs = 0;
  runs = 0;
  const auto report = explore(
      [] {
        return over<Two>({[](Two& two) { two.x.store(1); }, [](Two& two) { two.x.store(2); },
                          [](Two& two) {
                            if (runs++ == 0) two.y.store(1);
                          }});
      },
      {.reduces = false});
  EXPECT_NE(report.failure.find("not the same each time"), std::string::npos) << report.failure;
}

}  // namespace
}  // namespace tmflow::explore
