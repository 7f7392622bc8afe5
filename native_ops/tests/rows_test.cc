// Updates of rows: which elements and blocks they touch, and that no strategy loses any.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "in_step.hpp"
#include "mutants.hpp"
#include "tmflow/core/blocks.hpp"
#include "tmflow/core/gathered_rows.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/measure/variable_measures.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/striped.hpp"
#include "tmflow/sync/thread_number.hpp"

namespace tmflow {
namespace {

using Rows = std::vector<std::int64_t>;

TEST(GatheredRows, AreInOrderAndAddedUp) {
  const Rows rows{7, 2, 7, 0, 7};
  const std::vector<double> values{1, 10, 2, 20, 4, 40, 8, 80, 16, 160};
  const GatheredRows<double> gathered(rows, values, 2);
  const RowGradient<double>& gradient = gathered.gradient();
  EXPECT_EQ(Rows(gradient.rows.begin(), gradient.rows.end()), (Rows{0, 2, 7}));
  EXPECT_EQ(std::vector<double>(gradient.values.begin(), gradient.values.end()),
            (std::vector<double>{8, 80, 2, 20, 1 + 4 + 16, 10 + 40 + 160}));
}

TEST(GatheredRows, ValuesOfRowsInOrderAreNotCopied) {
  const Rows rows{0, 3, 4};
  const std::vector<float> values(6);
  const GatheredRows<float> gathered(rows, values, 2);
  EXPECT_EQ(gathered.gradient().values.data(), values.data());
}

TEST(GatheredRows, MustBeInTheVariable) {
  const std::vector<float> values(4);
  for (const Rows& rows :
       {Rows{-1, 2}, Rows{0, 9}, Rows{9, 0}, Rows{std::numeric_limits<std::int64_t>::max(), 1}}) {
    GatheredRows<float> gathered(rows, values, 2);
    EXPECT_THROW(gathered.fit(9), std::invalid_argument);
  }
  GatheredRows<float> gathered(Rows{8, 0}, values, 2);
  gathered.fit(9);
  EXPECT_EQ(gathered.gradient().elements, 18u);
}

// Random rows of a random variable, and the elements that they touch.
struct Touching {
  explicit Touching(std::mt19937& random) {
    const auto below = [&](std::size_t bound) {
      return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random);
    };
    const std::size_t n_rows = 1 + below(30), width = 1 + below(9);
    touched.resize(n_rows * width);
    for (std::size_t row = 0; row < n_rows; ++row) {
      if (below(3) != 0) continue;
      rows.push_back(static_cast<std::int64_t>(row));
      for (std::size_t c = 0; c < width; ++c) {
        touched[row * width + c] = true;
        values.push_back(static_cast<double>(row * width + c));  // each value is the number of its element
      }
    }
    gradient = {.rows = rows, .values = values, .width = width, .elements = touched.size()};
  }
  Touching(const Touching&) = delete;

  std::vector<bool> touched;
  Rows rows;
  std::vector<double> values;
  RowGradient<double> gradient;
};

TEST(RowGradient, PartsAreTheTouchedElementsOfARange) {
  std::mt19937 random(6);
  for (int trial = 0; trial < 300; ++trial) {
    const Touching update(random);
    const std::size_t size = update.touched.size(), first = random() % (size + 1),
                      count = random() % (size - first + 1);
    std::vector<bool> seen(size);
    update.gradient.for_each_part(first, count, [&](std::size_t begin, std::size_t n, const double* values) {
      ASSERT_GT(n, 0u);
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_FALSE(seen[begin + i]);
        seen[begin + i] = true;
        ASSERT_EQ(values[i], static_cast<double>(begin + i));
      }
    });
    for (std::size_t at = 0; at < size; ++at) {
      ASSERT_EQ(seen[at], update.touched[at] && at >= first && at < first + count);
    }
  }
}

TEST(Blocks, ThatAnUpdateTouchesAreVisitedOnceInEitherDirection) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const Touching update(random);
    const Blocks blocks{update.touched.size(), 1 + random() % 12};
    using Visited = std::vector<std::pair<std::size_t, std::size_t>>;
    Visited expected, forwards, backwards;
    for (std::size_t block = 0; block < blocks.count(); ++block) {
      const auto begin = update.touched.begin() + static_cast<std::ptrdiff_t>(blocks.first(block));
      const auto end = begin + static_cast<std::ptrdiff_t>(blocks.size(block));
      if (std::find(begin, end, true) == end) continue;
      std::size_t row = 0;
      while (update.gradient.end_of(row) <= blocks.first(block)) ++row;
      expected.emplace_back(block, row);
    }
    const GradientDescent<double> descent{.alpha = 1, .rows = &update.gradient};
    for_each_touched(blocks, descent, false,
                     [&](std::size_t block, std::size_t row) { forwards.emplace_back(block, row); });
    for_each_touched(blocks, descent, true,
                     [&](std::size_t block, std::size_t row) { backwards.emplace_back(block, row); });
    EXPECT_EQ(forwards, expected);
    std::ranges::reverse(backwards);
    EXPECT_EQ(backwards, expected);
  }
}

TEST(Blocks, OfADenseUpdateAreAllVisited) {
  for (const std::size_t elements : {0, 1, 9, 10, 11}) {
    const std::vector<float> delta(elements);
    const GradientDescent<float> update{.alpha = 1, .delta = delta};
    const Blocks blocks{elements, 3};
    for (const bool backwards : {false, true}) {
      std::vector<std::size_t> visited, expected(blocks.count());
      for_each_touched(blocks, update, backwards,
                       [&](std::size_t block, std::size_t) { visited.push_back(block); });
      std::iota(expected.begin(), expected.end(), std::size_t{0});
      if (backwards) std::ranges::reverse(expected);
      EXPECT_EQ(visited, expected);
    }
  }
}

// Makes of each update of the audit two updates of rows, which together update each element once. Threads of
// odd number leave out another row first than threads of even number, so the first rows differ and the others
// overlap.
template <class S>
struct ByRows {
  static constexpr std::size_t kWidth = 2;

  S& strategy;
  bool in_step = false;

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    using T = typename R::Value;
    assert(update.size() % kWidth == 0);
    const std::int64_t n_rows = static_cast<std::int64_t>(update.size() / kWidth);
    const std::int64_t apart = ThreadNumber<std::atomic>::own() % 2 == 0 ? 1 : 0;
    ThreadStats uncounted;
    for (const bool is_first : {true, false}) {
      Rows rows;
      std::vector<T> values;
      for (std::int64_t row = 0; row < n_rows; ++row) {
        if ((row == apart) == is_first) continue;
        rows.push_back(row);
        const auto of_row = update.delta.subspan(static_cast<std::size_t>(row) * kWidth, kWidth);
        values.insert(values.end(), of_row.begin(), of_row.end());
      }
      const RowGradient<T> gradient{
          .rows = rows, .values = values, .width = kWidth, .elements = update.size()};
      GradientDescent<T> of_rows{.alpha = update.alpha, .rows = &gradient};
      if (in_step) of_rows.kernel = seeded::read_meet_write<T>;
      strategy.apply(region, of_rows, is_first ? stats : uncounted);
    }
  }

  template <Region R>
  void settle(R& region) {
    if constexpr (requires { strategy.settle(region); }) strategy.settle(region);
  }
  template <Region R>
  void restart(R& region) {
    if constexpr (requires { strategy.restart(region); }) strategy.restart(region);
  }
};

// An AnyStrategy for the audit, which makes the region.
template <class T>
struct Named {
  std::unique_ptr<AnyStrategy<ArrayRegion<T>>> object;

  void apply(ArrayRegion<T>& region, const GradientDescent<T>& update, ThreadStats& stats) {
    object->apply(region, update, stats);
  }
  void settle(ArrayRegion<T>& region) { object->settle(region); }
  void restart(ArrayRegion<T>& region) { object->restart(region); }
};

using Given = std::vector<std::string>;  // parameters

const std::string kEmulatedMachine =
    "machine=provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";

// The defaults, several lengths of a block or chunk, and emulated transactions.
std::vector<Given> variants_of(const Listed& listed) {
  std::vector<Given> variants{{}};
  for (const Parameter& parameter : listed.info.parameters) {
    const std::string name(parameter.name);
    if (name != "block" && name != "chunk") continue;
    for (const char* const length : {"1", "2", "3", "1000"}) variants.push_back({name + "=" + length});
  }
  if (listed.info.name == "htm") {
    for (const char* const chunk : {"chunk=0", "chunk=2", "chunk=3"}) {
      variants.push_back({"provider=emulated", kEmulatedMachine, chunk});
    }
  }
  if (listed.info.name == "htm_if_fits") {
    for (const char* const fits : {"fits=1", "fits=20", "fits=1000"}) {
      variants.push_back({"provider=emulated", kEmulatedMachine, "block=3", fits});
    }
  }
  return variants;
}

TEST(RowUpdates, AreNotLostUnderAnyStrategyThatKeepsUpdates) {
  int n_audits = 0;
  for (const Listed& listed : listed_strategies()) {
    if (listed.info.updates == Consistency::none) continue;
    for (const Given& parameters : variants_of(listed)) {
      if (why_not(listed.info.name, parameters)) continue;
      Named<double> named{make_strategy<ArrayRegion<double>>(listed.info.name, parameters)};
      ByRows<Named<double>> by_rows{named};
      const AuditReport report = audit<double>(by_rows, {.threads = 4, .updates = 200, .elements = 100});
      std::string which(listed.info.name);
      for (const std::string& parameter : parameters) which += " " + parameter;
      EXPECT_TRUE(report.clean()) << which << ": " << report.tally.lost << " lost, " << report.tally.doubled
                                  << " doubled";
      EXPECT_EQ(report.counted, report.made) << which;
      ++n_audits;
    }
  }
  EXPECT_GE(n_audits, 20);
}

template <class S>
AuditReport audit_rows_in_step(S& strategy, std::chrono::milliseconds patience = std::chrono::seconds(30)) {
  seeded::Meeting own(patience);
  seeded::meeting = &own;
  ByRows<S> by_rows{strategy, true};
  return audit<double>(by_rows, seeded::kInStep);
}

// block_stm that holds the first row instead of all.
struct FirstRowHeld {
  ranges::LockTable<std::atomic> locks{ByRows<Lock>::kWidth};

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const std::size_t first = update.rows->begin_of(0);
    ranges::atomically<stm::Backoff, ranges::Sound>(
        locks, stats, [&](auto& transaction) { return transaction.hold(first, update.rows->width); },
        [&]() noexcept { update(memory, 0, memory.size()); });
    stats.count_update();
  }
};

TEST(RowUpdates, AuditCatchesMutants) {
  mutants::LockReleasedEarly no_lock;
  EXPECT_GT(audit_rows_in_step(no_lock).tally.lost, 0);
  FirstRowHeld first_row;
  EXPECT_GT(audit_rows_in_step(first_row).tally.lost, 0);
}

// The same schedule with the real ones, of which only one thread can be in a row: they wait in vain for each
// other.
TEST(RowUpdates, AuditInStepPassesWhatHoldsEachRow) {
  Striped rows_apart(ByRows<Lock>::kWidth);
  EXPECT_TRUE(audit_rows_in_step(rows_apart, std::chrono::milliseconds(50)).clean());
  BlockStm stm(ByRows<Lock>::kWidth);
  EXPECT_TRUE(audit_rows_in_step(stm, std::chrono::milliseconds(50)).clean());
  Combining combining(ByRows<Lock>::kWidth);
  EXPECT_TRUE(audit_rows_in_step(combining, std::chrono::milliseconds(50)).clean());
}

// Threads of odd number update all rows, and the others the whole variable, which combining publishes.
template <class S>
struct ByRowsAndDense {
  S& strategy;
  ByRows<S> by_rows{strategy};

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    if (ThreadNumber<std::atomic>::own() % 2 != 0) return by_rows.apply(region, update, stats);
    strategy.apply(region, update, stats);
  }
};

TEST(RowUpdates, AreNotLostBesideUpdatesOfTheWholeVariable) {
  for (const std::size_t block : {1, 3, 1000}) {
    Combining combining(block);
    ByRowsAndDense<Combining> published{combining};
    EXPECT_TRUE(audit<double>(published, {.threads = 4, .updates = 2000, .elements = 100}).clean()) << block;
    Striped striped(block);
    ByRowsAndDense<Striped> apart{striped};
    EXPECT_TRUE(audit<double>(apart, {.threads = 4, .updates = 2000, .elements = 100}).clean()) << block;
  }
}

// Of two updates of two rows, one is not made.
TEST(RowMeasures, AnUpdateThatIsNotMadeIsLost) {
  const std::vector<std::int64_t> rows{2, 5};
  const std::vector<float> values(2 * 10, 1);
  const RowGradient<float> gradient{.rows = rows, .values = values, .width = 10, .elements = 100};
  const GradientDescent<float> update{.alpha = -1, .rows = &gradient};
  std::vector<float> variable(100);
  for (const std::string strategy : {"nolock", "striped", "atomic"}) {
    VariableMeasures measures(strategy, {}, variable.size(), 2, 10);
    measures.around(update, 0, [&](const GradientDescent<float>& measured) { measured(variable, 0, 100); });
    EXPECT_EQ(measures.expected(1), 20);
    EXPECT_EQ(measures.kept(), 20) << strategy;
    if (strategy != "atomic") {  // which counts beside the variable, whatever happens to that
      measures.around(update, 1, [](const GradientDescent<float>&) {});
      EXPECT_EQ(measures.expected(2), 40);
      EXPECT_EQ(measures.kept(), 20) << strategy;
    }
    measures.reset();
    EXPECT_EQ(measures.expected(0) + measures.kept(), 0);
  }
}

}  // namespace
}  // namespace tmflow
