// The STM's parts and contention managers, and every design under every manager in the audit.
#include "tmflow/strategies/stm.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "stm_tools.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/stm/snapshot.hpp"

namespace tmflow::stm {
namespace {

TEST(Domain, HasAPowerOfTwoOfLocks) {
  for (const std::size_t locks : {0, 3, 1000}) EXPECT_THROW(Domain{locks}, std::invalid_argument);
  Domain two(2);
  EXPECT_EQ(&two.lock_of(0), &two.lock_of(2 * kStripeBytes));
  EXPECT_NE(&two.lock_of(0), &two.lock_of(kStripeBytes));
}

TEST(LockWord, KeepsVersionAndIncarnationApart) {
  LockWord word = free_at(12345);
  for (LockWord i = 0; i + 1 < kIncarnations; ++i) {
    EXPECT_FALSE(is_last_incarnation(word));
    word = next_incarnation(word);
    EXPECT_EQ(version_of(word), 12345u);
    EXPECT_FALSE(is_owned(word));
  }
  EXPECT_TRUE(is_last_incarnation(word));
  StripeEntry entry;
  EXPECT_TRUE(is_owned(owned_by(entry)));
  EXPECT_EQ(owner_of(owned_by(entry)), &entry);
}

TEST(StripeIndex, FindsWhatIsThereAndNothingElse) {
  StripeIndex index;
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (std::uint32_t i = 0; i < 5000; ++i) {
      EXPECT_EQ(index.find(i * kStripeBytes), StripeIndex::kAbsent);
      index.insert(i * kStripeBytes, i + static_cast<std::uint32_t>(epoch));
    }
    for (std::uint32_t i = 0; i < 5000; ++i) {
      EXPECT_EQ(index.find(i * kStripeBytes), i + static_cast<std::uint32_t>(epoch));
    }
    index.clear();
  }
}

// Entries of the first epoch do not reappear when the epochs wrap around.
TEST(StripeIndex, ForgetsAllWhenItsEpochsRunOut) {
  BasicStripeIndex<std::uint8_t> index;
  index.insert(0, 7);
  EXPECT_EQ(index.find(0), 7U);
  for (int epoch = 0; epoch < 600; ++epoch) {
    index.clear();
    ASSERT_EQ(index.find(0), StripeIndex::kAbsent) << epoch;
  }
  index.insert(0, 8);
  EXPECT_EQ(index.find(0), 8U);
}

TEST(Wt, AVersionOfTheClockFollowsTheLastIncarnation) {
  Domain domain(16);
  ThreadStats stats;
  long x = 0, seen = 1;
  for (LockWord i = 0; i < 2 * kIncarnations; ++i) {
    run<WriteThrough>(domain, stats, [&](auto& transaction) {
      EXPECT_TRUE(transaction.store(&x, 5L));
      return transaction.abort();
    });
  }
  EXPECT_EQ(domain.clock, 2u);
  run<Reading>(domain, stats, [&](auto& transaction) { return transaction.load(&x, seen); });
  EXPECT_EQ(seen, 0);
}

TEST(Descriptor, AKillHitsTheTransactionThatWasMeant) {
  Descriptor descriptor;
  descriptor.kill();
  EXPECT_FALSE(descriptor.is_killed()) << "no transaction is active";
  descriptor.activate();
  descriptor.kill();
  EXPECT_TRUE(descriptor.is_killed());
  EXPECT_FALSE(descriptor.deactivate());
  descriptor.activate();
  EXPECT_FALSE(descriptor.is_killed());
  EXPECT_TRUE(descriptor.deactivate());
  descriptor.kill();
  EXPECT_FALSE(descriptor.is_killed()) << "too late";
}

// Holds x until it has been killed once; then it runs to its end.
template <class Design, class Manager>
void hold_until_killed(Domain& domain, ThreadStats& stats, Cells& cells, const std::function<void()>& held) {
  bool first = true;
  run<Design, Manager>(domain, stats, [&](auto& transaction) {
    if (!add(transaction, cells.x.value, 1L)) return false;
    if (!std::exchange(first, false)) return true;
    held();
    while (add(transaction, cells.y.value, 1L) && add(transaction, cells.z.value, 1L)) {
      give_way();
    }
    return false;
  });
}

template <class Design>
class Killing : public ::testing::Test {};
using Encountering = ::testing::Types<EncounterTime, WriteThrough>;
TYPED_TEST_SUITE(Killing, Encountering);

TYPED_TEST(Killing, TheAggressiveManagerKillsTheOwner) {
  Domain domain(1024);
  Cells cells;
  ThreadStats stats, others;
  std::thread other;
  hold_until_killed<TypeParam, Aggressive>(domain, stats, cells, [&] {
    other = std::thread([&] { increment<TypeParam, Sound, Aggressive>(domain, others, cells.x.value); });
  });
  other.join();
  EXPECT_EQ(cells.x.value, 2);
  EXPECT_GE(aborts(stats, Cause::killed), 1);
}

TYPED_TEST(Killing, TheOlderKillsTheYounger) {
  Domain domain(1024);
  Cells cells;
  ThreadStats stats, others;
  std::atomic<bool> held{false};
  std::thread younger;
  bool first = true;
  run<TypeParam, Timestamp>(domain, stats, [&](auto& transaction) {
    if (std::exchange(first, false)) {
      younger = std::thread(
          [&] { hold_until_killed<TypeParam, Timestamp>(domain, others, cells, [&] { held = true; }); });
    }
    while (!held) give_way();
    return add(transaction, cells.x.value, 1L);
  });
  younger.join();
  EXPECT_EQ(cells.x.value, 2);
  EXPECT_GE(aborts(others, Cause::killed), 1);
  for (const Cause yielding : {Cause::killed, Cause::read_locked, Cause::write_locked}) {
    EXPECT_EQ(aborts(stats, yielding), 0);
  }
}

TYPED_TEST(Killing, TheYoungerYields) {
  Domain domain(1024);
  long x = 0;
  ThreadStats stats;
  Other younger;
  run<TypeParam, Timestamp>(domain, stats, [&](auto& transaction) {
    if (!add(transaction, x, 1L)) return false;
    younger.start([&](ThreadStats& own) { increment<TypeParam, Sound, Timestamp>(domain, own, x); });
    return true;
  });
  younger.join();
  EXPECT_EQ(x, 2);
  EXPECT_TRUE(stats.aborts().empty());
  EXPECT_GT(aborts(younger.stats, Cause::read_locked), 0);
  EXPECT_EQ(stats.counted(Contention::retries, 0), 1);
  EXPECT_EQ(younger.stats.counted(Contention::retries, 0), 0);
}

// Two words with a lock each, to which another thread adds 1 whenever a reader has checked a lock.
struct Disturbed : Sound {
  static void at(Point point) {
    if (point == Point::lock_seen) std::thread(disturb).join();
  }

  static inline std::function<void()> disturb;
};

TEST(Snapshot, AReaderThatIsDisturbedEachTimeTakesTheLocks) {
  Domain domain(1024);
  struct alignas(kStripeBytes) {
    long words[kStripeBytes / sizeof(long) + 1] = {};
  } memory;
  constexpr std::size_t kWords = kStripeBytes / sizeof(long) + 1;
  ThreadStats stats, others;
  Disturbed::disturb = [&] {
    run<EncounterTime>(domain, others, [&](auto& transaction) {
      return add(transaction, memory.words[0], 1L) && add(transaction, memory.words[kWords - 1], 1L);
    });
  };
  long seen[kWords] = {};
  snapshot<Suicide, Disturbed>(domain, stats, memory.words, seen, kWords);
  EXPECT_EQ(seen[0], kReadings);
  EXPECT_EQ(seen[kWords - 1], kReadings);
  EXPECT_EQ(aborts(stats, Cause::read_invalid), kReadings);
  EXPECT_EQ(aborts(stats, Cause::requested), 1);
  EXPECT_EQ(stats.commits(), 1);
  EXPECT_EQ(domain.clock, static_cast<std::uint64_t>(kReadings)) << "a reader commits nothing";
  Disturbed::disturb();
  EXPECT_EQ(memory.words[0], kReadings + 1) << "it gave the locks back";
}

// x is locked by a transaction that continues only after the reader has met its lock.
TEST(Snapshot, AReaderMeetsALockAndWaitsForItsOwner) {
  Domain domain(1024);
  Cells cells;
  ThreadStats stats;
  long seen = 0;
  for (const int readings : {kReadings, 0}) {
    const Cause met = readings > 0 ? Cause::read_locked : Cause::write_locked;
    Other meets;
    run<EncounterTime>(domain, stats, [&](auto& transaction) {
      if (!add(transaction, cells.x.value, 1L)) return false;
      meets.start(
          [&](ThreadStats& own) { snapshot<Delay, Sound>(domain, own, &cells.x.value, &seen, 1, readings); },
          met);
      return true;
    });
    meets.join();
    EXPECT_EQ(seen, cells.x.value);
    EXPECT_EQ(aborts(meets.stats, met), 1);
  }
}

template <class Design, class Manager>
void audit_in(std::size_t locks, int threads, int updates, std::int64_t elements) {
  InDomain<Design, Manager> strategy(locks);
  const AuditPlan plan{.threads = threads, .updates = updates, .elements = elements};
  const AuditReport report = audit<double>(strategy, plan);
  EXPECT_TRUE(report.clean()) << report.tally.lost << " lost, " << report.tally.doubled << " doubled";
  EXPECT_EQ(report.counted, threads * updates);
}

template <class Pair>
class Audited : public ::testing::Test {};
template <class Design>
using WithEachManager =
    std::tuple<std::pair<Design, Suicide>, std::pair<Design, Delay>, std::pair<Design, Backoff>,
               std::pair<Design, Aggressive>, std::pair<Design, Timestamp>>;
template <class... Lists>
struct Joined;
template <class... A, class... B, class... C>
struct Joined<std::tuple<A...>, std::tuple<B...>, std::tuple<C...>> {
  using Types = ::testing::Types<A..., B..., C...>;
};
using Pairs =
    Joined<WithEachManager<EncounterTime>, WithEachManager<CommitTime>, WithEachManager<WriteThrough>>;
TYPED_TEST_SUITE(Audited, Pairs::Types);

TYPED_TEST(Audited, LosesNothing) {
  using Design = typename TypeParam::first_type;
  using Manager = typename TypeParam::second_type;
  for (const int threads : {1, 2, 4}) {
    audit_in<Design, Manager>(Domain::kLocks, threads, 50, 1000);
    audit_in<Design, Manager>(2, threads, 20, 100);
    audit_in<Design, Manager>(4, threads, 20, 1);
  }
  audit_in<Design, Manager>(4, 8, 10, 1000);  // more stripes than locks, more threads than cores
}

// The strategy, through the registry.
std::vector<std::vector<std::string>> every_variant() {
  std::vector<std::vector<std::string>> variants;
  for (const std::string design : {"wb_etl", "wb_ctl", "wt"}) {
    for (const std::string manager : {"suicide", "delay", "backoff", "aggressive", "timestamp"}) {
      for (const std::string instrumentation : {"all", "shared"}) {
        for (const std::string optimisation : {"O0", "O3"}) {
          variants.push_back({"design=" + design, "manager=" + manager, "instrumentation=" + instrumentation,
                              "optimisation=" + optimisation});
        }
      }
    }
  }
  return variants;
}

template <class T>
class Stm : public ::testing::Test {};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(Stm, Types);

TYPED_TEST(Stm, OneThreadComputesTheBitsOfThePlainLoop) {
  for (const std::size_t size : {0, 1, 7, 1000}) {
    std::vector<TypeParam> delta(size), start(size);
    for (std::size_t i = 0; i < size; ++i) {
      delta[i] = TypeParam{1} / static_cast<TypeParam>(i + 3);
      start[i] = TypeParam{1} / static_cast<TypeParam>(i + 1);
    }
    const GradientDescent<TypeParam> update{.alpha = TypeParam{0.3}, .delta = delta};
    std::vector<TypeParam> expected = start;
    update(expected, 0, size);
    for (const auto& variant : every_variant()) {
      std::vector<TypeParam> variable = start;
      ArrayRegion<TypeParam> region(variable);
      ThreadStats stats;
      make_strategy<ArrayRegion<TypeParam>>("stm", variant)->apply(region, update, stats);
      EXPECT_EQ(variable, expected) << ::testing::PrintToString(variant);
      EXPECT_EQ(stats.updates(), 1);
      EXPECT_EQ(stats.commits(), size == 0 ? 0 : 1);
    }
  }
}

TYPED_TEST(Stm, ReadsWhatTheLastUpdateLeftAndCountsNothing) {
  std::vector<TypeParam> variable(1001), delta(1001);
  for (std::size_t i = 0; i < delta.size(); ++i) delta[i] = static_cast<TypeParam>(i);
  ArrayRegion<TypeParam> region(variable);
  for (auto variant : every_variant()) {
    for (const std::string chunk : {"0", "1", "300"}) {
      variant.push_back("chunk=" + chunk);
      const auto strategy = make_strategy<ArrayRegion<TypeParam>>("stm", variant);
      variant.pop_back();
      ThreadStats stats, reader;
      strategy->apply(region, {.alpha = -1, .delta = delta}, stats);
      std::vector<TypeParam> copy(variable.size());
      strategy->read(region, {.into = copy}, reader);
      EXPECT_EQ(copy, variable) << ::testing::PrintToString(variant) << " chunk " << chunk;
      EXPECT_EQ(reader.commits() + reader.updates() + reader.counted(Contention::retries, 0), 0);
    }
  }
}

TYPED_TEST(Stm, LosesNothingAsAStrategy) {
  for (const auto& variant : every_variant()) {
    const auto strategy = make_strategy<ArrayRegion<TypeParam>>("stm", variant);
    EXPECT_TRUE(audit<TypeParam>(*strategy, {.threads = 4, .updates = 10, .elements = 1001}).clean())
        << ::testing::PrintToString(variant);
  }
}

TEST(StmStrategy, AChunkIsATransaction) {
  std::vector<float> variable(10), delta(10, 1);
  ArrayRegion<float> region(variable);
  for (const auto& [chunk, commits] :
       std::vector<std::pair<int, int>>{{0, 1}, {1, 10}, {3, 4}, {10, 1}, {999, 1}}) {
    ThreadStats stats;
    const std::vector<std::string> given{"chunk=" + std::to_string(chunk)};
    make_strategy<ArrayRegion<float>>("stm", given)->apply(region, {.alpha = -1, .delta = delta}, stats);
    EXPECT_EQ(stats.commits(), commits) << chunk;
    EXPECT_EQ(stats.counted(Contention::retries, 0), commits) << chunk;
  }
  EXPECT_EQ(variable, std::vector<float>(10, 5));
}

}  // namespace
}  // namespace tmflow::stm
