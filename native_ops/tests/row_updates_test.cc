// Torn reads of rows are exactly those that have a part of an update.
#include "tmflow/measure/row_updates.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/measure/variable_measures.hpp"

namespace tmflow {
namespace {

using Rows = std::vector<std::int64_t>;

// Ten rows of 4 elements and two workers.
class RowsRead : public ::testing::Test {
 protected:
  static constexpr std::size_t kWidth = 4, kRows = 10;

  void change(Shadow::Stamp update, std::int64_t row, std::size_t from = 0, std::size_t count = kWidth) {
    shadow_.around(
        ids_.at(update.worker), static_cast<std::size_t>(row) * kWidth + from, count,
        [](std::size_t, std::size_t) {}, update);
  }

  Shadow::Stamp begin(std::size_t worker, const Rows& rows) {
    ids_[worker] = Shadow::new_id();
    return updates_.begin(worker, rows);
  }

  void update(std::size_t worker, const Rows& rows) {
    const Shadow::Stamp stamp = begin(worker, rows);
    for (const std::int64_t row : rows) change(stamp, row);
    updates_.end(stamp);
  }

  // Whether a read of these rows is torn, if `after(row)` happens after the copy of each row.
  bool torn(const Rows& rows, const std::function<void(std::int64_t)>& after = {}) {
    WatchedRows watch(shadow_, updates_);
    for (const std::int64_t row : rows) {
      watch.around(row, static_cast<std::size_t>(row) * kWidth, kWidth, [](std::size_t, std::size_t) {});
      if (after) after(row);
    }
    return watch.torn();
  }

  static constexpr int kKept = 10;
  RowUpdates updates_{2, kKept};
  Shadow shadow_{kRows * kWidth, find_kernel<double>(), kWidth, false, 2};
  std::vector<std::uint64_t> ids_ = std::vector<std::uint64_t>(2);
};

TEST_F(RowsRead, AreTornBetweenTheRowsOfAnUpdate) {
  const Shadow::Stamp stamp = begin(0, {2, 5});
  EXPECT_FALSE(torn({2, 5}));
  change(stamp, 2);
  EXPECT_TRUE(torn({2, 5}));
  EXPECT_TRUE(torn({1, 2, 3, 5}));
  EXPECT_FALSE(torn({2, 3}));  // no other row of the update
  EXPECT_FALSE(torn({5, 6}));
  change(stamp, 5);
  EXPECT_FALSE(torn({2, 5}));
  updates_.end(stamp);
  EXPECT_FALSE(torn({2, 5}));
}

TEST_F(RowsRead, AreTornIfAnUpdateFallsBetweenTheirCopies) {
  update(1, {2, 5});
  EXPECT_TRUE(torn({2, 5}, [&](std::int64_t row) {
    if (row == 2) update(0, {2, 5});
  }));
  EXPECT_TRUE(torn({2, 3, 5}, [&](std::int64_t row) {  // three updates, of which one is seen in part
    if (row != 3) return;
    update(1, {3});
    update(1, {1, 2, 5});
    update(1, {7});
  }));
  EXPECT_FALSE(torn({2, 5}, [&](std::int64_t row) {  // it is in no row that was copied before
    if (row == 2) update(0, {3, 5});
  }));
  EXPECT_FALSE(torn({2, 5}, [&](std::int64_t row) {  // two updates, each of one row
    if (row != 2) return;
    update(0, {2});
    update(0, {5});
  }));
  EXPECT_FALSE(torn({2, 5}, [&](std::int64_t row) {
    if (row == 5) update(0, {2, 5});
  }));
}

TEST_F(RowsRead, AreTornIfOneRowIs) {
  const Shadow::Stamp stamp = begin(1, {4});
  change(stamp, 4, 0, 1);
  EXPECT_TRUE(torn({4}));
  EXPECT_TRUE(torn({3, 4}));
  EXPECT_FALSE(torn({3, 5}));
  change(stamp, 4, 1, kWidth - 1);
  EXPECT_FALSE(torn({4}));
}

TEST_F(RowsRead, CountAsTornIfTheRowsOfAnUpdateAreForgotten) {
  const auto updates_meanwhile = [&](int n) {
    return torn({1, 2}, [&](std::int64_t row) {
      for (int i = 0; row == 1 && i < n; ++i) update(0, {2, 3});
    });
  };
  EXPECT_FALSE(updates_meanwhile(kKept / 2));
  EXPECT_TRUE(updates_meanwhile(kKept / 2 + 1));
  EXPECT_FALSE(torn({1, 2}));
}

TEST_F(RowsRead, AfterAResetAreWhole) {
  change(begin(0, {2, 5}), 2);
  shadow_.reset();
  updates_.reset();
  EXPECT_FALSE(torn({2, 5}));
  update(0, {2, 5});
  EXPECT_FALSE(torn({2, 5}));
}

// The measures of a variable connect both.
TEST(MeasuredRows, AReadInTheMiddleOfAnUpdateIsTorn) {
  const Rows rows{2, 5};
  const std::vector<float> values(2 * 10, 1);
  const RowGradient<float> gradient{.rows = rows, .values = values, .width = 10, .elements = 100};
  std::vector<float> variable(100);
  for (const char* const strategy : {"nolock", "striped", "lock", "block_stm"}) {
    VariableMeasures measures(strategy, {}, variable.size(), 2, 10);
    ASSERT_TRUE(measures.watches_rows());
    const auto torn = [&] {
      WatchedRows watch = measures.watch_rows();
      for (const std::int64_t row : rows) {
        watch.around(row, static_cast<std::size_t>(row) * 10, 10, [](std::size_t, std::size_t) {});
      }
      return watch.torn();
    };
    measures.around(GradientDescent<float>{.alpha = -1, .rows = &gradient}, 1,
                    [&](const GradientDescent<float>& measured) {
                      measured(variable, 0, 40);
                      EXPECT_TRUE(torn()) << strategy;
                      measured(variable, 40, 60);
                      EXPECT_FALSE(torn()) << strategy;
                    });
    EXPECT_FALSE(torn()) << strategy;
  }
  EXPECT_FALSE(VariableMeasures("atomic", {}, 100, 1, 10).watches_rows());
  EXPECT_FALSE(VariableMeasures("spin", {}, 100, 1).watches_rows());
}

}  // namespace
}  // namespace tmflow
