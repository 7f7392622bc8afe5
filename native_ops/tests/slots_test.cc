// Optimisers with slots: the rules, the elements that an update touches, and that weights and slots stay
// together under every strategy that keeps them so.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "in_step.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/htm/emulated/buffered_update.hpp"
#include "tmflow/measure/variable_measures.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/sync/run_together.hpp"
#include "tmflow/train/models.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow {
namespace {

const std::string kMachine =
    "machine=provider=rtm;line_bytes=64;sets=64;ways=8;reads_fill=1;siblings=1;asynchronous=0";

// Why the call is refused; "" if it is not.
template <class Call>
std::string reason_of(const Call& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

struct Variant {
  std::string strategy;
  std::vector<std::string> parameters = {};
};

// Every strategy that updates in place, with blocks and chunks that do not divide the variable.
std::vector<Variant> in_place() {
  std::vector<Variant> variants;
  for (const Listed& listed : listed_strategies()) {
    const std::string name(listed.info.name);
    if (listed.in_place() && !listed.why_not && !listed.info.own_process) variants.push_back({name});
  }
  for (const char* const name : {"striped", "combining", "block_stm"})
    variants.push_back({name, {"block=300"}});
  variants.push_back({"adaptive", {"promise=block"}});
  variants.push_back({"htm", {"provider=emulated", kMachine}});
  variants.push_back({"htm", {"provider=emulated", kMachine, "subscription=slots"}});
  variants.push_back({"htm", {"provider=emulated", kMachine, "chunk=300", "budget=1000"}});
  for (const char* const fits : {"fits=1", "fits=1000000"})
    variants.push_back({"htm_if_fits", {"provider=emulated", kMachine, "block=300", fits}});
  return variants;
}

// A variable and its slots.
template <class T>
struct State {
  State(Optimiser optimiser, std::size_t n, T value) : variable(n, value), region(std::span<T>(variable)) {
    slots.kernel = find_slot_kernel<T>(optimiser);
    slots.hyper = Hyperparameters<T>::of(optimiser);
    for (std::size_t slot = 0; slot < slots_of(optimiser); ++slot) {
      memory[slot].assign(n, static_cast<T>(initial_slot(optimiser)));
      slots.memory[slot] = memory[slot].data();
    }
  }
  State(const State&) = delete;

  LinesOf<T> variable;
  LinesOf<T> memory[kMostSlots];
  Slots<T> slots{};
  ArrayRegion<T> region;
};

// An element and its slots, by TensorFlow's formulas in long double.
struct Element {
  long double value, first, second;

  void update(Optimiser optimiser, long double gradient, long double alpha) {
    if (optimiser == Optimiser::momentum) {
      first = first * 0.9L + gradient;
      value -= alpha * first;
    } else if (optimiser == Optimiser::adagrad) {
      first += gradient * gradient;
      value -= alpha * gradient / std::sqrt(first);
    } else {
      first += (gradient - first) * (1 - 0.9L);
      second += (gradient * gradient - second) * (1 - 0.999L);
      value -= alpha * first / (std::sqrt(second) + 1e-8L);
    }
  }
};

template <class T>
class SlotKernels : public testing::Test {};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SlotKernels, Types);

TYPED_TEST(SlotKernels, FollowTensorFlowsFormulas) {
  using T = TypeParam;
  constexpr std::size_t kElements = 67;  // no multiple of a vector
  for (const Optimiser optimiser : {Optimiser::momentum, Optimiser::adagrad, Optimiser::adam}) {
    for (const char* const optimisation : {"O0", "O3"}) {
      State<T> state(optimiser, kElements, T{2});
      const long double start = initial_slot(optimiser);
      std::vector<Element> expected(kElements, {2, start, start});
      std::vector<T> gradient(kElements);
      for (int step = 0; step < 20; ++step) {
        for (std::size_t i = 0; i < kElements; ++i) {
          gradient[i] =
              static_cast<T>(static_cast<int>((i * 7 + static_cast<std::size_t>(step) * 5) % 13) - 6);
          expected[i].update(optimiser, static_cast<long double>(gradient[i]), 0.25L);
        }
        find_slot_kernel<T>(optimiser, optimisation)(state.variable.data(), state.slots.memory.data(),
                                                     gradient.data(), T{0.25}, state.slots.hyper, kElements);
        clear_upper_halves();
      }
      for (std::size_t i = 0; i < kElements; ++i) {
        const long double rounding = 200 * static_cast<long double>(std::numeric_limits<T>::epsilon());
        ASSERT_NEAR(state.variable[i], expected[i].value, rounding * 8)
            << name_of(optimiser) << ' ' << optimisation << ' ' << i;
        ASSERT_NEAR(state.memory[0][i], expected[i].first, rounding * (1 + std::abs(expected[i].first)));
      }
    }
  }
}

TEST(Slots, EveryBuildComputesTheSameBits) {
  for (const Optimiser optimiser : {Optimiser::momentum, Optimiser::adagrad, Optimiser::adam}) {
    State<float> slow(optimiser, 100, 1), fast(optimiser, 100, 1);
    std::vector<float> gradient(100);
    for (int step = 0; step < 10; ++step) {
      for (std::size_t i = 0; i < 100; ++i)
        gradient[i] = std::sin(static_cast<float>(i) + 0.1F * static_cast<float>(step));
      find_slot_kernel<float>(optimiser, "O0")(slow.variable.data(), slow.slots.memory.data(),
                                               gradient.data(), 0.3F, slow.slots.hyper, 100);
      find_slot_kernel<float>(optimiser, "O3")(fast.variable.data(), fast.slots.memory.data(),
                                               gradient.data(), 0.3F, slow.slots.hyper, 100);
      clear_upper_halves();
    }
    EXPECT_EQ(slow.variable, fast.variable) << name_of(optimiser);
    for (std::size_t slot = 0; slot < kMostSlots; ++slot) EXPECT_EQ(slow.memory[slot], fast.memory[slot]);
  }
}

TEST(Optimisers, HaveNames) {
  for (const Optimiser optimiser : kOptimisers) EXPECT_EQ(optimiser_named(name_of(optimiser)), optimiser);
  EXPECT_EQ(reason_of([] { optimiser_named("nadam"); }),
            "optimiser is 'nadam'; allowed: sgd, momentum, adagrad, adam");
}

// One thread: the bits of every strategy are those of one loop over the variable, whatever the ranges.
TEST(Slots, EveryStrategyComputesTheSameBits) {
  constexpr std::size_t kElements = 5000;
  std::vector<float> gradient(kElements);
  for (std::size_t i = 0; i < kElements; ++i) gradient[i] = std::sin(static_cast<float>(i));
  for (const Optimiser optimiser : {Optimiser::momentum, Optimiser::adagrad, Optimiser::adam}) {
    State<float> expected(optimiser, kElements, 1);
    for (int step = 0; step < 3; ++step) {
      expected.slots.kernel(expected.variable.data(), expected.slots.memory.data(), gradient.data(), 0.5F,
                            expected.slots.hyper, kElements);
      clear_upper_halves();
    }
    for (const Variant& variant : in_place()) {
      State<float> state(optimiser, kElements, 1);
      const auto strategy = make_strategy<ArrayRegion<float>>(variant.strategy, variant.parameters);
      ThreadStats stats;
      for (int step = 0; step < 3; ++step) {
        strategy->apply(state.region, {.alpha = 0.5F, .delta = gradient, .slots = &state.slots}, stats);
      }
      EXPECT_EQ(state.variable, expected.variable) << variant.strategy << ' ' << name_of(optimiser);
      EXPECT_EQ(state.memory[0], expected.memory[0]) << variant.strategy;
      EXPECT_EQ(state.memory[1], expected.memory[1]) << variant.strategy;
    }
  }
}

TEST(Slots, OnlyThoseOfTouchedRowsChange) {
  constexpr std::size_t kRows = 900, kWidth = 7;
  const std::vector<std::int64_t> rows{0, 3, 40, 41, 899};
  const std::vector<float> values(rows.size() * kWidth, 2);
  const RowGradient<float> gradient{
      .rows = rows, .values = values, .width = kWidth, .elements = kRows * kWidth};
  for (const Optimiser optimiser : {Optimiser::momentum, Optimiser::adagrad}) {
    for (const Variant& variant : in_place()) {
      State<float> state(optimiser, kRows * kWidth, 1), one(optimiser, 1, 1);
      const auto strategy = make_strategy<ArrayRegion<float>>(variant.strategy, variant.parameters);
      ThreadStats stats;
      for (int step = 0; step < 2; ++step) {
        strategy->apply(state.region, {.alpha = 0.5F, .rows = &gradient, .slots = &state.slots}, stats);
        one.slots.kernel(one.variable.data(), one.slots.memory.data(), values.data(), 0.5F, one.slots.hyper,
                         1);
        clear_upper_halves();
      }
      for (std::size_t i = 0; i < kRows * kWidth; ++i) {
        const bool touched = std::ranges::count(rows, static_cast<std::int64_t>(i / kWidth)) != 0;
        ASSERT_EQ(state.variable[i], touched ? one.variable[0] : 1) << variant.strategy << ' ' << i;
        ASSERT_EQ(state.memory[0][i],
                  touched ? one.memory[0][0] : static_cast<float>(initial_slot(optimiser)))
            << variant.strategy << ' ' << i;
      }
    }
  }
}

// Threads update at the same time. All updates are equal, so the values do not depend on their order, but on
// each of them: one that is lost, in the element or a slot, or that is mixed with another changes them.
TEST(Slots, StayTogetherWithTheirVariableUnderEveryStrategyThatLosesNothing) {
  constexpr std::size_t kElements = 3000;
  constexpr int kThreads = 3, kUpdates = 200;
  const std::vector<double> gradient(kElements, 3);
  for (const Optimiser optimiser : {Optimiser::momentum, Optimiser::adagrad, Optimiser::adam}) {
    State<double> expected(optimiser, 1, 1);
    for (int update = 0; update < kThreads * kUpdates; ++update) {
      expected.slots.kernel(expected.variable.data(), expected.slots.memory.data(), gradient.data(), 0.5,
                            expected.slots.hyper, 1);
    }
    clear_upper_halves();
    for (const Variant& variant : in_place()) {
      if (variant.strategy == "nolock") continue;
      State<double> state(optimiser, kElements, 1);
      VariableMeasures measures(variant.strategy, variant.parameters, kElements, kThreads, 0, true);
      const auto strategy = make_strategy<ArrayRegion<double>>(variant.strategy, variant.parameters);
      std::vector<ThreadStats> stats(kThreads);
      std::barrier start(kThreads);
      run_at_once(
          kThreads,
          [&](int thread) {
            start.arrive_and_wait();
            for (int update = 0; update < kUpdates; ++update) {
              measures.around(GradientDescent<double>{.alpha = 0.5, .delta = gradient, .slots = &state.slots},
                              thread, [&](const GradientDescent<double>& measured) {
                                strategy->apply(state.region, measured,
                                                stats[static_cast<std::size_t>(thread)]);
                              });
            }
          },
          [&] { start.arrive_and_drop(); });
      for (std::size_t i = 0; i < kElements; ++i) {
        ASSERT_EQ(state.variable[i], expected.variable[0]) << variant.strategy << ' ' << name_of(optimiser);
        for (std::size_t slot = 0; slot < slots_of(optimiser); ++slot) {
          ASSERT_EQ(state.memory[slot][i], expected.memory[slot][0]) << variant.strategy;
        }
      }
      EXPECT_EQ(measures.inconsistent(), 0) << variant.strategy;
      EXPECT_EQ(measures.kept(), measures.expected(kThreads * kUpdates)) << variant.strategy;
    }
  }
}

// Two threads meet after both have read, in the slots of each block, and not in its elements: without a lock
// each slot keeps one of the two updates, and its element both.
void meet_in_slots(double* sum, const double* delta, double alpha, std::size_t n) noexcept {
  thread_local int calls = 0;
  if (calls++ % 3 == 1) return seeded::read_meet_write(sum, delta, alpha, n);  // count, slots, element
  std::atomic_ref(*sum).fetch_add(-alpha * *delta, std::memory_order_relaxed);
}

template <class S>
std::int64_t inconsistent_if_two_meet(std::chrono::milliseconds patience) {
  constexpr std::size_t kElements = 2 * Shadow::kBlock + 100;
  seeded::Meeting own(patience);
  seeded::meeting = &own;
  Shadow shadow(kElements, meet_in_slots, kElements, true);
  EXPECT_EQ(shadow.inconsistent(), 0);
  State<float> state(Optimiser::momentum, kElements, 1);
  // The loop itself changes nothing: without a lock it would be a race.
  state.slots.kernel = [](float*, float* const*, const float*, float, const Hyperparameters<float>&,
                          std::size_t) noexcept {};
  const std::vector<float> gradient(kElements, 1);
  ThreadStats stats[2];
  S strategy;
  run_at_once(
      2,
      [&](int thread) {
        strategy.apply(state.region,
                       GradientDescent<float>{.alpha = 1,
                                              .delta = gradient,
                                              .slots = &state.slots,
                                              .shadow = &shadow,
                                              .id = Shadow::new_id()},
                       stats[thread]);
      },
      [] {});
  const std::int64_t inconsistent = shadow.inconsistent().value();
  EXPECT_EQ(shadow.kept(), 2 * static_cast<std::int64_t>(kElements));
  shadow.reset();
  EXPECT_EQ(shadow.inconsistent(), 0);
  return inconsistent;
}

TEST(Inconsistent, EveryElementWithoutALockAndNoneUnderOne) {
  EXPECT_EQ(inconsistent_if_two_meet<NoLock>(std::chrono::seconds(30)), 2 * 1024 + 100);
  EXPECT_EQ(inconsistent_if_two_meet<Lock>(std::chrono::milliseconds(50)), 0);
  EXPECT_EQ(Shadow(10, find_kernel<double>()).inconsistent(), std::nullopt);
}

// A transaction touches the lines of every slot too.
TEST(EmulatedFootprint, IncludesTheSlots) {
  const auto aborts = [](std::size_t elements, Optimiser optimiser) {
    const bool slots = optimiser != Optimiser::sgd;
    State<float> state(slots ? optimiser : Optimiser::momentum, elements, 1);
    const std::vector<float> gradient(elements, 1);
    const auto htm = make_strategy<ArrayRegion<float>>(
        "htm", std::vector<std::string>{
                   "provider=emulated", "budget=1",
                   "machine=provider=power;line_bytes=128;entries=64;siblings=1;asynchronous=0"});
    ThreadStats stats;
    htm->apply(state.region, {.alpha = 1, .delta = gradient, .slots = slots ? &state.slots : nullptr}, stats);
    EXPECT_EQ(stats.commits() + stats.fallbacks(), 1);
    return stats.fallbacks();
  };
  // Of 64 entries one is the mutex; n lines of elements take n of gradient (or one more), and n of slots.
  EXPECT_EQ(aborts(32 * 25, Optimiser::sgd), 0);
  EXPECT_EQ(aborts(32 * 25, Optimiser::momentum), 1);
  EXPECT_EQ(aborts(32 * 19, Optimiser::momentum), 0);
  EXPECT_EQ(aborts(32 * 19, Optimiser::adam), 1);
  EXPECT_EQ(aborts(32 * 13, Optimiser::adam), 0);
}

// Of the trial.
using train::Trial, train::TrialPlan, train::make_model;

std::string reason_of_trial(const TrialPlan& plan, bool by_rows = false) {
  return reason_of([&] {
    train::ModelFactors factors{.matrix = 30, .numbers = {}};
    if (by_rows) factors.numbers = {{"features", 80}, {"width", 3}};
    Trial trial(make_model<float>(by_rows ? "sparse_logistic" : "mnist_softmax", factors), plan);
  });
}

TEST(TrialWithSlots, RefusesWhatCannotKeepThem) {
  for (const Listed& listed : listed_strategies()) {
    if (listed.why_not || listed.info.own_process || listed.in_place()) continue;
    const std::string name(listed.info.name);
    const auto reading = listed.keeps_elsewhere ? train::ReadingOf::consistent : train::ReadingOf::plain;
    EXPECT_NE(reason_of_trial({.strategy = name, .reading = reading, .optimiser = Optimiser::momentum})
                  .find("optimiser momentum does not go with strategy '" + name + "'"),
              std::string::npos)
        << name;
    State<float> state(Optimiser::momentum, 5, 1);
    const std::vector<float> gradient(5);
    ThreadStats stats;
    EXPECT_THROW(make_strategy<ArrayRegion<float>>(name)->apply(
                     state.region, {.alpha = 1, .delta = gradient, .slots = &state.slots}, stats),
                 std::invalid_argument);
  }
  EXPECT_NE(
      reason_of_trial({.strategy = "lock", .parameters = {"kernel=fused"}, .optimiser = Optimiser::adam})
          .find("kernel must be plain, not fused"),
      std::string::npos);
  EXPECT_NE(
      reason_of_trial({.strategy = "lock", .optimiser = Optimiser::adam}, true).find("cannot update rows"),
      std::string::npos);
}

// After set_variables a trial starts over: with its slots, and Adam with its powers.
TEST(TrialWithSlots, StartsOver) {
  const std::vector<float> images(30 * 40, 0.5F);
  std::vector<float> labels(10 * 40);
  for (std::size_t i = 0; i < 40; ++i) labels[i * 10 + i % 10] = 1;
  const train::TrainingSet set(images, labels, 30, 10);
  const std::vector<std::int64_t> starts{0, 7, 3, 30, 12};
  const std::vector<float> weights(300), bias(10);
  for (const Optimiser optimiser : kOptimisers) {
    for (const auto layout : {train::Layout::separate, train::Layout::joined}) {
      Trial trial(make_model<float>("mnist_softmax", {.matrix = 30}),
                  {.strategy = "striped", .layout = layout, .optimiser = optimiser, .full_measures = true});
      std::vector<std::vector<double>> losses;
      for (int time = 0; time < 2; ++time) {
        trial.set_variables({weights, bias});
        losses.emplace_back(starts.size());
        trial.run({set, starts, 3}, 0.1F, losses.back());
        EXPECT_EQ(trial.lost(0).inconsistent,
                  optimiser == Optimiser::sgd ? std::nullopt : std::optional<std::int64_t>(0));
      }
      EXPECT_EQ(losses[0], losses[1]) << name_of(optimiser);
      EXPECT_NE(losses[0][4], losses[0][0]);
    }
  }
}

TEST(AdamPowers, LoseNoStep) {
  train::AdamPowers<double> powers, alone;
  for (int step = 0; step < 20; ++step) alone.end_step();  // few: 0.9^2000 is lost in 1 - 0.9^2000
  for (int round = 0; round < 500; ++round) {
    powers.reset();
    run_at_once(
        4,
        [&](int) {
          for (int step = 0; step < 5; ++step) powers.end_step();
        },
        [] {});
    ASSERT_EQ(powers.corrected(1), alone.corrected(1));
  }
  alone.reset();
  EXPECT_DOUBLE_EQ(alone.corrected(1), std::sqrt(1 - 0.999) / (1 - 0.9));
}

}  // namespace
}  // namespace tmflow
