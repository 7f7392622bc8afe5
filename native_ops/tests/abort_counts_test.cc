// The counts of aborts: exact for many statuses, and for many threads at the same time.
#include "tmflow/measure/abort_counts.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tmflow/htm/elision.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/ranges/transaction.hpp"
#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/wb_etl.hpp"

namespace {
thread_local bool is_out_of_memory = false;
}  // namespace

// Replaced in this whole program, so that a thread can declare its memory used up. Not inlined, because GCC
// reports a mismatched pair if it sees only one of new and delete.
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  void* const memory = is_out_of_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// AddressSanitizer's own does not call the one above, and its memory must not be freed.
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return is_out_of_memory ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tmflow {
namespace {

TEST(AbortCounts, AreExactForMoreStatusesThanHaveAPlace) {
  AbortCounts counts;
  AbortCounts::ByStatus expected;
  for (std::uint64_t status = 0; status < 30; ++status) {
    counts.add(status, static_cast<std::int64_t>(status) + 1);
    counts.add(status, 1);
    expected[status] = static_cast<std::int64_t>(status) + 2;
  }
  counts.add(~std::uint64_t{0}, 5);
  expected[~std::uint64_t{0}] = 5;
  EXPECT_EQ(counts.by_status(), expected);
  counts.clear();
  EXPECT_TRUE(counts.by_status().empty());
  counts.add(7, 1);
  EXPECT_EQ(counts.by_status(), (AbortCounts::ByStatus{{7, 1}}));
}

TEST(AbortCounts, LoseNothingWhenThreadsMeetNewStatusesAtOnce) {
  constexpr int kThreads = 4, kTimes = 2000;
  constexpr std::uint64_t kStatuses = 12;
  AbortCounts counts;
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&] {
        for (int i = 0; i < kTimes; ++i) {
          for (std::uint64_t status = 0; status < kStatuses; ++status) counts.add(status, 1);
        }
      });
    }
  }
  AbortCounts::ByStatus expected;
  for (std::uint64_t status = 0; status < kStatuses; ++status) expected[status] = kThreads * kTimes;
  EXPECT_EQ(counts.by_status(), expected);
}

// Counts statuses that no transaction has, so that all places are taken.
void take_all_places(ThreadStats& stats) {
  for (std::uint64_t status = 1000; status < 1010; ++status) stats.count_abort(status);
}

// Runs `section`, which throws, without free memory. It counts in destructors, where an escaping exception
// would end the process.
template <class Section>
void expect_error_later(const Section& section) {
  ThreadStats stats;
  take_all_places(stats);
  is_out_of_memory = true;
  EXPECT_THROW(section(stats), int);
  is_out_of_memory = false;
  EXPECT_THROW(stats.aborts(), std::runtime_error);
  stats.reset();
  EXPECT_TRUE(stats.aborts().empty());
}

struct AlwaysAborts {
  template <class Taken, class Body>
  bool attempt(const Taken&, const Body&, htm::Ended& ended) const {
    ended = {.status = 5, .hopeless = false};
    return false;
  }
};

TEST(AbortCounts, WithoutMemoryAnElidedSectionPassesItsExceptionOn) {
  std::uint32_t word = 0;
  const htm::ElidableMutex mutex{
      .word = &word, .mask = 1, .mutex = nullptr, .take = [](void*) {}, .give_back = [](void*) {}};
  expect_error_later([&](ThreadStats& stats) {
    htm::elide(AlwaysAborts(), mutex, {2, htm::Spending::study_tsx}, stats, [] {}, [] { throw 1; });
  });
}

TEST(AbortCounts, WithoutMemoryATransactionOverRangesPassesItsExceptionOn) {
  ranges::LockTable<std::atomic> locks(4, 16);
  ThreadStats warm_up;
  const auto commit = [](auto&) { return true; };
  ranges::atomically<stm::Suicide>(locks, warm_up, commit, []() noexcept {});  // creates the transactor
  expect_error_later([&](ThreadStats& stats) {
    const auto body = [](auto&) -> bool { throw 1; };
    ranges::atomically<stm::Suicide>(locks, stats, body, []() noexcept {});
  });
}

TEST(AbortCounts, WithoutMemoryASoftwareTransactionPassesItsExceptionOn) {
  stm::Domain domain(1024);
  ThreadStats warm_up;
  stm::atomically<stm::WbEtl, stm::Suicide>(domain, warm_up, [](auto&) { return true; });
  expect_error_later([&](ThreadStats& stats) {
    stm::atomically<stm::WbEtl, stm::Suicide>(domain, stats, [](auto&) -> bool { throw 1; });
  });
}

}  // namespace
}  // namespace tmflow
