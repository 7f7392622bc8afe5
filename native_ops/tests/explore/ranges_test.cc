// atomic, block_stm and leashed under every schedule.
#include "expected.hpp"
#include "tmflow/strategies/atomic.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/leashed.hpp"

namespace tmflow::explore {
namespace {

using Atomic = BasicAtomic<Ref>;

TEST(Explored, Atomic) {
  expect_proven("atomic, 2 updaters x 2 elements", check_consistency<Atomic>({.block = 1}));
  expect_proven("atomic, 3 updaters x 1 element",
                check_consistency<Atomic>({.updaters = 3, .elements = 1, .block = 1}));
}

template <class Policy = ranges::Sound>
auto block_stm(const char* manager, std::size_t locks = 2) {
  return [=] { return std::make_unique<BasicBlockStm<Atom, Policy>>(1, manager, locks); };
}

TEST(Explored, AtomicRows) {
  expect_proven("atomic, 2 updaters of rows, 1 in common",
                check_consistency<Atomic>({.rows = {0b011, 0b110}, .elements = 3, .block = 1}));
}

class EveryManager : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(BlockStm, EveryManager, ::testing::Values("suicide", "delay", "backoff"));

TEST_P(EveryManager, KeepsConsistency) {
  const std::string name = std::string("block_stm, ") + GetParam();
  expect_proven(name + ", 2 updaters x 1 block",
                check_consistency({.elements = 1, .block = 1}, block_stm(GetParam())));
  expect_proven(name + ", 2 updaters x 2 blocks, once each",
                check_consistency({.again = 0}, block_stm(GetParam())));
}

// All rows of an update change together. There is a lock for each: if two rows shared one, two updates could
// take locks in opposite orders, and yield to each other as often as a schedule likes.
TEST(Explored, BlockStmOfRows) {
  expect_proven("block_stm, backoff, 2 updaters of rows, 1 in common, once each",
                check_consistency({.again = 0, .rows = {0b011, 0b110}, .elements = 3, .block = 3},
                                  block_stm("backoff", 4)));
  expect_proven("block_stm, backoff, 1 updater of 2 rows, 1 reader, once",
                check_consistency({.updaters = 1,
                                   .again = 0,
                                   .readers = 1,
                                   .rows = {0b110},
                                   .elements = 3,
                                   .block = 3,
                                   .copy = racy_copy},
                                  block_stm("backoff", 4)));
}

TEST(DeepBlockStm, OfThree) {
  expect_proven(
      "block_stm, backoff, 3 updaters x 1 block, once each",
      check_consistency({.updaters = 3, .again = 0, .elements = 1, .block = 1}, block_stm("backoff")));
}

// block_stm whose updates first try a transaction that writes and kills, and then gives up.
template <class Policy = ranges::Sound>
struct GivesUpFirst : BasicBlockStm<Atom, Policy> {
  GivesUpFirst() : BasicBlockStm<Atom, Policy>(1, "backoff", 2) {}

  template <Region R>
  void apply(R& region, const GradientDescent<double>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    this->atomically(stats, [&](auto& transaction) {
      const auto half = [&](std::span<double> range) {
        update.kernel(range.data(), update.delta.data(), 1, 1);
      };
      return transaction.modify(memory, 0, 1, half) && transaction.abort();
    });
    BasicBlockStm<Atom, Policy>::apply(region, update, stats);
  }
};

constexpr Plan kWithAReader{.updaters = 1, .readers = 1, .copy = racy_copy};
constexpr Plan kOnceWithAReader{.updaters = 1, .again = 0, .readers = 1, .copy = racy_copy};

// A copy may see what a transaction writes before it gives up; such a copy is discarded.
constexpr Plan kRacyWithAReader{
    .updaters = 1, .again = 0, .readers = 1, .kernel = kernel<double, true>, .copy = racy_copy};
constexpr Plan kRacyWithAReading{.updaters = 1,
                                 .again = 0,
                                 .readers = 1,
                                 .readings = 1,
                                 .kernel = kernel<double, true>,
                                 .copy = racy_copy};

TEST(Explored, BlockStmRead) {
  expect_proven("block_stm, 1 updater, 1 reader, 2 blocks",
                check_consistency(kWithAReader, block_stm("backoff")));
  expect_proven("block_stm, 1 updater, 1 reader, 2 blocks, once, after an undone attempt",
                check_consistency<GivesUpFirst<>>(kOnceWithAReader));
}

// Elements may be read while they are written. To miss that both locks are taken, the reader must be late at
// both.
TEST(ExploredLate, BlockStmRead) {
  expect_proven("block_stm, 1 updater, 1 read, 2 blocks, once, late in 2 places",
                check_consistency(kRacyWithAReading, block_stm("backoff"), {.late = 2}));
  expect_proven("block_stm, 1 updater, 1 read, 2 blocks, once, after an undone attempt",
                check_consistency<GivesUpFirst<>>(kRacyWithAReading, {.late = 1}));
}

using Leashed = BasicLeashed<Atom>;
constexpr Plan kOneWithAReader{.updaters = 1, .readers = 1, .elements = 1, .block = 1};

TEST(Explored, Leashed) {
  expect_proven("leashed, 2 updaters x 1 element", check_consistency<Leashed>({.elements = 1, .block = 1}));
  expect_proven("leashed, 2 updaters x 2 elements, once each", check_consistency<Leashed>({.again = 0}));
}

TEST(ExploredLate, Leashed) {
  expect_proven("leashed, 1 updater, 1 read, 1 element",
                check_consistency<Leashed>(
                    {.updaters = 1, .readers = 1, .readings = 1, .elements = 1, .block = 1}, {.late = 1}));
}

// The second update would reuse the copy that the first reading holds.
TEST(Explored, LeashedRead) {
  expect_proven("leashed, 1 updater, 1 reader, 1 element", check_consistency<Leashed>(kOneWithAReader));
}

struct LocksNothing : ranges::Sound {
  static constexpr bool kLocks = false;
};
struct ReleasesFirst : ranges::Sound {
  static constexpr bool kReleasesLast = false;
};
struct LooksOnce : ranges::Sound {
  static constexpr bool kLooksAgain = false;
};
struct ComparesNothing : ranges::Sound {
  static constexpr bool kComparesVersions = false;
};
struct RestoresNothing : ranges::Sound {
  static constexpr bool kRestores = false;
};
struct GivesTheOldVersion : ranges::Sound {
  static constexpr bool kNewVersions = false;
};

TEST(SeededInBlockStm, IsFound) {
  expect_found("block_stm: an update that takes no locks",
               check_consistency({}, block_stm<LocksNothing>("backoff")), "data race");
  expect_found("block_stm: an update that releases its locks before it writes",
               check_consistency({}, block_stm<ReleasesFirst>("backoff")), "data race");
  expect_found("block_stm: a reader that does not recheck the locks",
               check_consistency(kWithAReader, block_stm<LooksOnce>("backoff")), "it kept what it read");
  expect_found("block_stm: a reader that does not compare versions",
               check_consistency(kWithAReader, block_stm<ComparesNothing>("backoff")),
               "a reading has parts of an update");
  expect_found("block_stm: an abort that does not undo its writes",
               check_consistency<GivesUpFirst<RestoresNothing>>(kOnceWithAReader),
               "a reading has parts of an update");
  expect_found("block_stm: an abort that restores the old version number",
               check_consistency<GivesUpFirst<GivesTheOldVersion>>(kRacyWithAReader),
               "a reading has parts of an update");
}

struct PublishesBlindly : publish::Sound {
  static constexpr bool kComparesAtPublication = false;
};
struct HoldsBlindly : publish::Sound {
  static constexpr bool kLooksAgain = false;
};
struct RecyclesHeld : publish::Sound {
  static constexpr bool kSparesHeld = false;
};

TEST(SeededInLeashed, IsFound) {
  expect_found("leashed: publication by a store instead of a compare-exchange",
               check_consistency<BasicLeashed<Atom, PublishesBlindly>>({}), "an update is lost");
  expect_found("leashed: a reader that does not recheck the newest copy",
               check_consistency<BasicLeashed<Atom, HoldsBlindly>>(kOneWithAReader), "data race");
  expect_found("leashed: a copy recycled while it is read",
               check_consistency<BasicLeashed<Atom, RecyclesHeld>>({}), "data race");
}

}  // namespace
}  // namespace tmflow::explore
