// striped and combining under every schedule.
#include "expected.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/striped.hpp"
#include "weakened.hpp"

namespace tmflow::explore {
namespace {

template <template <class> class A = Atom>
auto striped(std::size_t block = 1) {
  return [=] { return std::make_unique<BasicStriped<A>>(block); };
}

template <template <class> class A = Atom>
auto combining(std::size_t block = 1) {
  return [=] { return std::make_unique<BasicCombining<A>>(block); };
}

constexpr Plan kBlocks{.block = 1};
constexpr Plan kOnce{.again = 0, .block = 1};
constexpr Plan kOne{.elements = 1, .block = 1};
constexpr Plan kOneFresh{.fresh_gradient = true, .elements = 1, .block = 1};
constexpr Plan kOneOfThree{.updaters = 3, .again = 0, .elements = 1, .block = 1};
constexpr Plan kWithAReader{.updaters = 1, .readers = 1, .block = 1};
constexpr Plan kWholeWithAReader{.updaters = 1, .readers = 1};

TEST(Explored, Striped) {
  expect_proven("striped, 2 updaters x 2 blocks", check_consistency(kBlocks, striped()));
  expect_proven("striped, 1 updater, 1 reader, 2 blocks", check_consistency(kWithAReader, striped()));
}

TEST(Explored, StripedOfThree) {
  expect_proven("striped, 3 updaters x 1 block, once each", check_consistency(kOneOfThree, striped()));
}

TEST(Explored, Combining) {
  expect_proven("combining, 2 updaters x 1 block", check_consistency(kOne, combining()));
  expect_proven("combining, 1 updater, 1 reader, 2 blocks", check_consistency(kWithAReader, combining()));
  expect_proven("combining, 1 block of 2, 1 updater, 1 reader",
                check_consistency(kWholeWithAReader, combining(2)));
}

// Other threads read a thread's gradient, and the thread overwrites it as soon as its update is applied.
TEST(Explored, CombiningOfFreshGradients) {
  expect_proven("combining, 2 updaters x 1 block, fresh gradients",
                check_consistency(kOneFresh, combining()));
}

TEST(Explored, CombiningOfTwoBlocks) {
  expect_proven("combining, 2 updaters x 2 blocks, once each", check_consistency(kOnce, combining()));
}

// Updates of rows that overlap, and one of rows together with one of the whole variable.
constexpr Plan kRows{.again = 0, .rows = {0b011, 0b110}, .elements = 3, .block = 1};
constexpr Plan kRowsAgain{.rows = {0b01, 0b11}, .block = 1};
constexpr Plan kRowAndWhole{.again = 0, .rows = {0b10, 0}, .block = 1};

TEST(Explored, StripedRows) {
  expect_proven("striped, 2 updaters of rows, 1 in common, once each", check_consistency(kRows, striped()));
  expect_proven("striped, 2 updaters of rows, 1 of 2 in common", check_consistency(kRowsAgain, striped()));
  expect_proven("striped, 2 updaters x 2 blocks, one of 1 row, once each",
                check_consistency(kRowAndWhole, striped()));
}

TEST(Explored, CombiningOfRows) {
  expect_proven("combining, 2 updaters of rows, 1 in common, once each",
                check_consistency(kRows, combining()));
  expect_proven("combining, 2 updaters x 2 blocks, one of 1 row, once each",
                check_consistency(kRowAndWhole, combining()));
}

TEST(ExploredLate, Blocks) {
  expect_proven("striped, 2 updaters x 2 blocks", check_consistency(kBlocks, striped(), {.late = 1}));
  expect_proven("combining, 2 updaters x 1 block, once each",
                check_consistency({.again = 0, .elements = 1, .block = 1}, combining(), {.late = 1}));
}

TEST(DeepCombining, OfThree) {
  expect_none_found("combining, 3 updaters x 1 block, once each",
                    check_consistency(kOneOfThree, combining(), {.executions = 1'000'000}));
}

// striped without a lock on the last block.
struct LastBlockUnlocked {
  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    for (std::size_t i = 0; i < memory.size(); ++i) {
      if (i + 1 < memory.size()) locks[i].lock();
      update(memory, i, 1);
      if (i + 1 < memory.size()) locks[i].unlock();
    }
    stats.count_update();
  }
  std::array<BasicSpinLock<Atom>, kMostElements> locks;
};

// striped that locks a row by its place in the gradient, and not by its number.
struct LocksByPlace {
  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    if (update.rows == nullptr) {
      update(memory, 0, memory.size());  // after all threads
    } else {
      for (std::size_t place = 0; place < update.rows->rows.size(); ++place) {
        const std::lock_guard held(locks[place]);
        update(memory, update.rows->begin_of(place), 1);
      }
    }
    stats.count_update();
  }
  std::array<BasicSpinLock<Atom>, kMostElements> locks;
};

// combining that marks the other thread's update as applied before it applies it.
struct SaysItTooEarly {
  struct Seat {
    const GradientDescent<double>* update = nullptr;
    Atom<int> is_in{0};
  };

  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    Seat& own = seats[static_cast<std::size_t>(running_thread())];
    own.update = &update;
    own.is_in.store(1, std::memory_order_release);
    while (own.is_in.load(std::memory_order_acquire) != 2) {
      if (!mutex.try_lock()) {
        wait();
        continue;
      }
      for (Seat& seat : seats) {
        if (seat.is_in.load(std::memory_order_acquire) != 1) continue;
        const GradientDescent<double> theirs = *seat.update;
        seat.is_in.store(2, std::memory_order_release);
        theirs(memory, 0, memory.size());
      }
      mutex.unlock();
    }
    stats.count_update();
  }
  std::array<Seat, kMostThreads> seats;
  BasicSpinLock<Atom> mutex;
};

TEST(SeededInStriped, IsFound) {
  expect_found("striped: relaxed stores", check_consistency(kBlocks, striped<Unreleased>()), "data race");
  expect_found("striped: an exchange split into load and store",
               check_consistency(kBlocks, striped<InTwoSteps>()), "deadlock");
  expect_found("striped: no lock on the last block", check_consistency<LastBlockUnlocked>(kBlocks),
               "data race");
  expect_found("striped: a row locked by its place in the gradient", check_consistency<LocksByPlace>(kRows),
               "data race");
}

TEST(SeededInCombining, IsFound) {
  expect_found("combining: relaxed stores", check_consistency(kBlocks, combining<Unreleased>()), "data race");
  expect_found("combining: an exchange split into load and store",
               check_consistency(kBlocks, combining<InTwoSteps>()), "deadlock");
}

// A thread whose update is marked as applied continues, and reads a variable without it.
TEST(SeededInCombining, IsFoundWhereItSaysSoTooEarly) {
  expect_found("combining: an update marked as applied before it is applied", explore([] {
                 const auto test = std::make_shared<UnderTest<SaysItTooEarly>>(
                     kOne, [] { return std::make_unique<SaysItTooEarly>(); });
                 Program program;
                 for (const int thread : {0, 1}) {
                   program.threads.push_back([=] {
                     test->update(thread);
                     test->require_own(thread);
                   });
                 }
                 return program;
               }),
               "a thread does not see its own update");
}

}  // namespace
}  // namespace tmflow::explore
