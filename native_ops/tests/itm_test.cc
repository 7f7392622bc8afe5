// GCC's transactions. A process has one method, so CMakeLists.txt runs the tests of Itm* in one process for
// each method; any other process can test only the refusal.
#include "tmflow/strategies/itm.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/measure/audit.hpp"
#if defined(TMFLOW_TEST_ITM)
#include "in_step.hpp"
#include "itm_seeded.hpp"
#endif

namespace tmflow {
namespace {

std::string method_of_process() {
  const char* method = std::getenv("ITM_DEFAULT_METHOD");
  return method == nullptr ? "" : method;
}

template <class T>
auto make_itm(const std::string& optimisation = "O3") {
  const std::vector<std::string> parameters{"method=" + method_of_process(), "optimisation=" + optimisation};
  return make_strategy<ArrayRegion<T>>("itm", parameters);
}

TEST(ItmRefuses, AMethodThatTheProcessWasNotStartedWith) {
  if (Itm::why_not()) GTEST_SKIP() << *Itm::why_not();
  for (const std::string method : {"gl_wt", "ml_wt", "serialirr"}) {
    if (method == method_of_process()) continue;
    const std::vector<std::string> parameters{"method=" + method};
    try {
      make_strategy<ArrayRegion<float>>("itm", parameters);
      FAIL() << method << " is not the method of this process";
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find("ITM_DEFAULT_METHOD=" + method), std::string::npos)
          << error.what();
    }
  }
}

#if defined(TMFLOW_TEST_ITM)

template <class T>
class ItmOf : public ::testing::Test {
 protected:
  void SetUp() override {
    if (method_of_process().empty()) GTEST_SKIP() << "this process was not started with a method";
    if (method_of_process() == "htm" && htm::kRtm.why_not()) GTEST_SKIP() << *htm::kRtm.why_not();
  }
};
using Types = ::testing::Types<float, double>;
TYPED_TEST_SUITE(ItmOf, Types);

TYPED_TEST(ItmOf, OneThreadIsThePlainLoop) {
  for (const std::string optimisation : {"O0", "O3"}) {
    const auto itm = make_itm<TypeParam>(optimisation);
    for (const std::size_t n : {0, 1, 2, 3, 7, 1000, 7840}) {
      std::vector<TypeParam> variable(n), delta(n);
      for (std::size_t i = 0; i < n; ++i) {
        variable[i] = static_cast<TypeParam>(i) / 7;
        delta[i] = static_cast<TypeParam>(i) / 3;
      }
      std::vector<TypeParam> expected = variable;
      const GradientDescent<TypeParam> update{.alpha = TypeParam{0.1}, .delta = delta};
      update(expected, 0, n);
      ArrayRegion<TypeParam> region(variable);
      ThreadStats stats;
      itm->apply(region, update, stats);
      EXPECT_EQ(variable, expected) << n << " elements, " << optimisation;
      EXPECT_EQ(stats.commits() + stats.fallbacks(), 1);
      EXPECT_TRUE(stats.aborts().empty());
    }
  }
}

TYPED_TEST(ItmOf, NothingIsLost) {
  const AuditPlan plans[] = {{2, 200, 1}, {16, 100, 10}, {4, 100, 7840}, {16, 8, 100'003}};
  for (const AuditPlan& plan : plans) {
    for (const std::string optimisation : {"O0", "O3"}) {
      const AuditReport report = audit<TypeParam>(*make_itm<TypeParam>(optimisation), plan);
      EXPECT_TRUE(report.clean()) << plan.elements << " elements, " << optimisation;
      EXPECT_EQ(report.counted, plan.threads * plan.updates);
    }
  }
}

TYPED_TEST(ItmOf, EveryRestartIsCounted) {
  constexpr int kThreads = 4, kUpdates = 200;
  const std::set<std::string> only_alone{"serialirr", "serialirr_onwrite"};
  const std::set<std::string> never_restarts{"serialirr", "serial", "htm"};
  const std::string method = method_of_process();
  std::vector<TypeParam> variable(1000), delta(1000, 1);
  ArrayRegion<TypeParam> region(variable);
  std::vector<ThreadStats> stats(kThreads);
  const auto itm = make_itm<TypeParam>();
  {
    std::vector<std::jthread> threads;
    for (ThreadStats& own : stats) {
      threads.emplace_back([&] {
        for (int u = 0; u < kUpdates; ++u) itm->apply(region, {.alpha = -1, .delta = delta}, own);
      });
    }
  }
  EXPECT_EQ(variable.front(), kThreads * kUpdates);
  for (const ThreadStats& own : stats) {
    EXPECT_EQ(own.commits() + own.fallbacks(), kUpdates);
    EXPECT_EQ(known_attempts(own).has_value(), method != "htm");
    EXPECT_TRUE(own.fallbacks() == kUpdates || !only_alone.contains(method));
    EXPECT_TRUE(own.commits() == kUpdates || method != "serial");
    EXPECT_TRUE(own.aborts().empty() || !never_restarts.contains(method));
    for (const auto& [status, count] : own.aborts()) EXPECT_EQ(status, 0u);
  }
}

TYPED_TEST(ItmOf, TheAuditCatchesUninstrumentedAccesses) {
  if (method_of_process() != "ml_wt") GTEST_SKIP() << "needs two transactions at once";
  seeded::BlindTransactions broken;
  const AuditReport report = seeded::audit_in_step<TypeParam>(broken);
  EXPECT_EQ(report.tally.lost, seeded::kInStep.updates * seeded::kInStep.elements);
}

#endif

}  // namespace
}  // namespace tmflow
