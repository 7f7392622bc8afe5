// The explorer with late threads: it finds the effects of weaker memory orders, and nothing that C++ forbids.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "arena.hpp"
#include "atom.hpp"
#include "over.hpp"

namespace tmflow::explore {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelease = std::memory_order_release;
constexpr auto kSequential = std::memory_order_seq_cst;

struct Shared {
  Atom<int> x, y, z;
  double first = 0, second = 0;
  int seen[3] = {};
};

bool is_found(const Report& report, std::string_view wrong) {
  EXPECT_TRUE(report.finished || report.failure.find(wrong) != std::string::npos) << report.failure;
  return !report.finished;
}

// Two threads each store, and then load what the other one stores.
template <std::memory_order store, std::memory_order load, bool one_fence = false, bool other_fence = false>
bool both_see_nothing() {
  return is_found(explore(
                      [] {
                        return over<Shared>(
                            {[](Shared& it) {
                               it.x.store(1, store);
                               if (one_fence) fence(kSequential);
                               it.seen[0] = it.y.load(load);
                             },
                             [](Shared& it) {
                               it.y.store(1, store);
                               if (other_fence) fence(kSequential);
                               it.seen[1] = it.x.load(load);
                             }},
                            [](Shared& it) { require(it.seen[0] + it.seen[1] > 0, "both saw nothing"); });
                      },
                      {.late = 1}),
                  "both saw nothing");
}

TEST(Late, StoresAreBuffered) {
  EXPECT_TRUE((both_see_nothing<kRelaxed, kRelaxed>()));
  EXPECT_TRUE((both_see_nothing<kRelease, kAcquire>()));
  EXPECT_FALSE((both_see_nothing<kSequential, kSequential>()));
}

TEST(Late, FencesOfBothSidesDrainThem) {
  EXPECT_FALSE((both_see_nothing<kRelaxed, kRelaxed, true, true>()));
  EXPECT_TRUE((both_see_nothing<kRelaxed, kRelaxed, true, false>()));
  EXPECT_TRUE((both_see_nothing<kRelaxed, kRelaxed, false, true>()));
}

// Whether a reader of a flag may miss the message; all accesses are atomic.
template <std::memory_order store, std::memory_order load, bool release_fence = false,
          bool acquire_fence = false>
bool message_is_missed() {
  return is_found(explore(
                      [] {
                        return over<Shared>({[](Shared& it) {
                                               it.x.store(1, kRelaxed);
                                               if (release_fence) fence(kRelease);
                                               it.y.store(1, store);
                                             },
                                             [](Shared& it) {
                                               if (it.y.load(load) == 0) return;
                                               if (acquire_fence) fence(kAcquire);
                                               require(it.x.load(kRelaxed) == 1, "the message is missed");
                                             }});
                      },
                      {.late = 1}),
                  "the message is missed");
}

TEST(Late, AMessageNeedsBothOrders) {
  EXPECT_FALSE((message_is_missed<kRelease, kAcquire>()));
  EXPECT_TRUE((message_is_missed<kRelease, kRelaxed>()));
  EXPECT_TRUE((message_is_missed<kRelaxed, kAcquire>()));
  EXPECT_FALSE((message_is_missed<kRelaxed, kRelaxed, true, true>()));
  EXPECT_TRUE((message_is_missed<kRelaxed, kRelaxed, true, false>()));
  EXPECT_TRUE((message_is_missed<kRelaxed, kRelaxed, false, true>()));
}

// An increment continues the release sequence of the store before it; another store ends it.
template <bool increments>
bool sequence_is_broken() {
  return is_found(explore(
                      [] {
                        return over<Shared>({[](Shared& it) {
                                               it.x.store(1, kRelaxed);
                                               it.y.store(1, kRelease);
                                             },
                                             [](Shared& it) {
                                               if (increments) {
                                                 it.y.fetch_add(1, kRelaxed);
                                               } else if (it.y.load(kRelaxed) == 1) {
                                                 it.y.store(2, kRelaxed);
                                               }
                                             },
                                             [](Shared& it) {
                                               if (it.y.load(kAcquire) != 2) return;
                                               require(it.x.load(kRelaxed) == 1, "the message is missed");
                                             }});
                      },
                      {.late = 1}),
                  "the message is missed");
}

TEST(Late, AnIncrementContinuesAReleaseSequence) {
  EXPECT_FALSE(sequence_is_broken<true>());
  EXPECT_TRUE(sequence_is_broken<false>());
}

// A later load gives no older value than an earlier one, whether both are of one thread or ordered between
// two.
TEST(Late, LooksAreCoherent) {
  const auto report = explore(
      [] {
        return over<Shared>({[](Shared& it) {
                               it.x.store(1, kRelaxed);
                               it.x.store(2, kRelaxed);
                             },
                             [](Shared& it) {
                               const int first = it.x.load(kRelaxed);
                               require(it.x.load(kRelaxed) >= first, "an older value came later");
                               it.seen[0] = first;
                               it.y.store(1, kRelease);
                             },
                             [](Shared& it) {
                               if (it.y.load(kAcquire) == 0) return;
                               require(it.x.load(kRelaxed) >= it.seen[0], "an older value came later");
                             }});
      },
      {.late = 3});
  EXPECT_TRUE(report.finished) << report.failure;
}

TEST(Late, AnIncrementMissesNothing) {
  constexpr auto add = [](Shared& it) { it.x.fetch_add(1, kRelaxed); };
  const auto report = explore(
      [=] {
        return over<Shared>({add, add, add},
                            [](Shared& it) { require(it.x.load(kRelaxed) == 3, "an increment is lost"); });
      },
      {.late = 3});
  EXPECT_TRUE(report.finished) << report.failure;
}

// A waiting thread eventually sees what it waits for.
TEST(Late, WhoWaitsIsNotLateForEver) {
  const auto report = explore(
      [] {
        return over<Shared>({[](Shared& it) { it.x.store(1, kRelaxed); },
                             [](Shared& it) {
                               while (it.x.load(kRelaxed) == 0) wait();
                             }});
      },
      {.late = 2});
  EXPECT_TRUE(report.finished) << report.failure;
  EXPECT_EQ(report.interleavings, 3);  // the load is before the store, after it, or misses it
}

// A writer marks that it writes; a reader copies between two loads of the mark.
template <bool release_fence, bool acquire_fence>
bool copy_is_mixed() {
  return is_found(explore(
                      [] {
                        return over<Shared>({[](Shared& it) {
                                               it.x.store(1, kRelaxed);
                                               if (release_fence) fence(kRelease);
                                               write_element(&it.first, 1.0, true);
                                               write_element(&it.second, 1.0, true);
                                               it.x.store(2, kRelease);
                                             },
                                             [](Shared& it) {
                                               const int mark = it.x.load(kAcquire);
                                               if (mark == 1) return;
                                               const double first = read_element(&it.first, true);
                                               const double second = read_element(&it.second, true);
                                               if (acquire_fence) fence(kAcquire);
                                               if (it.x.load(kRelaxed) != mark) return;
                                               require(first == second, "the copy is mixed");
                                             }});
                      },
                      {.late = 1}),
                  "the copy is mixed");
}

TEST(Late, ACopyBetweenTwoLooksNeedsBothFences) {
  EXPECT_FALSE((copy_is_mixed<true, true>()));
  EXPECT_TRUE((copy_is_mixed<false, true>()));
  EXPECT_TRUE((copy_is_mixed<true, false>()));
}

// The reduced search gives every result that all interleavings and all late loads give.
std::set<int> results(const Limits& limits, std::int64_t& interleavings) {
  static std::set<int> results;
  results.clear();
  const auto report = explore(
      [] {
        return over<Shared>({[](Shared& it) {
                               it.x.store(1, kRelease);
                               it.seen[0] = it.y.load(kAcquire) + 4 * it.z.fetch_add(1, kRelaxed);
                             },
                             [](Shared& it) {
                               it.y.store(1, kRelaxed);
                               fence(kSequential);
                               it.seen[1] = it.x.load(kRelaxed) + 4 * it.z.load(kRelaxed);
                             },
                             [](Shared& it) {
                               it.seen[2] = it.z.load(kAcquire);
                               it.y.store(2, kRelaxed);
                               it.seen[2] += 4 * it.x.load(kRelaxed);
                             }},
                            [](Shared& it) {
                              const int y = it.y.load();
                              const arena::Outside outside;
                              results.insert(it.seen[0] + 16 * it.seen[1] + 256 * it.seen[2] + 4096 * y);
                            });
      },
      limits);
  EXPECT_TRUE(report.finished) << report.failure;
  interleavings = report.interleavings;
  return results;
}

TEST(Late, ReductionLosesNoResult) {
  std::int64_t all = 0, reduced = 0;
  std::set<int> before;
  for (const int late : {0, 1, 2, 9}) {
    const auto of_all = results({.reduces = false, .late = late}, all);
    EXPECT_EQ(of_all, results({.late = late}, reduced)) << late;
    EXPECT_LT(reduced, all) << late;
    EXPECT_TRUE(std::ranges::includes(of_all, before)) << late;
    before = of_all;
  }
  EXPECT_GT(before.size(), results({}, all).size());
}

}  // namespace
}  // namespace tmflow::explore
