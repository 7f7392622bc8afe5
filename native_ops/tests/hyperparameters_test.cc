// The hyperparameters of optimisers: what a caller may set, and that the loops use it.
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/slots.hpp"

namespace tmflow {
namespace {

std::string refusal(Optimiser optimiser, const std::vector<std::string>& given) {
  try {
    parse_hyperparameters<float>(optimiser, given);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Hyperparameters, AreTensorFlowsWhereNoneAreGiven) {
  const auto adam = parse_hyperparameters<float>(Optimiser::adam, {});
  EXPECT_EQ(adam.first_rate, 1.0F - 0.9F);
  EXPECT_EQ(adam.epsilon, 1e-8F);
  EXPECT_EQ(parse_hyperparameters<double>(Optimiser::adagrad, {}).epsilon, 0);
  EXPECT_EQ(parse_hyperparameters<double>(Optimiser::momentum, {}).momentum, 0.9);
}

TEST(Hyperparameters, AreThoseGiven) {
  const std::vector<std::string> given{"epsilon=1e-07", "first_rate=0.25"};
  const auto adam = parse_hyperparameters<double>(Optimiser::adam, given);
  EXPECT_EQ(adam.epsilon, 1e-7);
  EXPECT_EQ(adam.first_rate, 0.25);
  EXPECT_EQ(adam.second_rate, 1 - 0.999);
}

TEST(Hyperparameters, RefuseWhatNoLoopUses) {
  EXPECT_EQ(refusal(Optimiser::momentum, {"epsilon=1"}),
            "'epsilon=1' sets no hyperparameter of optimiser momentum; allowed, as name=number: momentum");
  EXPECT_EQ(refusal(Optimiser::sgd, {"momentum=1"}),
            "'momentum=1' sets no hyperparameter of optimiser sgd; allowed, as name=number: none");
  EXPECT_EQ(refusal(Optimiser::adam, {"first_rate"}),
            "'first_rate' sets no hyperparameter of optimiser adam; allowed, as name=number: first_rate, "
            "second_rate, epsilon");
  for (const char* const wrong :
       {"momentum=", "momentum=-1", "momentum=inf", "momentum=1e40", "momentum=1x"}) {
    EXPECT_EQ(refusal(Optimiser::momentum, {wrong}),
              "hyperparameter '" + std::string(wrong) +
                  "' of optimiser momentum must be a finite number from 0 on");
  }
  EXPECT_EQ(refusal(Optimiser::adagrad, {"epsilon=1", "epsilon=1"}),
            "hyperparameter 'epsilon' is given twice");
}

// One step from known slots.
float stepped(Optimiser optimiser, const std::vector<std::string>& given, float first, float second) {
  float variable = 1, gradient = 2;
  float* const slots[] = {&first, &second};
  const auto hyper = parse_hyperparameters<float>(optimiser, given);
  find_slot_kernel<float>(optimiser)(&variable, slots, &gradient, 0.5F, hyper, 1);
  clear_upper_halves();
  return variable;
}

TEST(Hyperparameters, DetermineTheStep) {
  EXPECT_EQ(stepped(Optimiser::momentum, {"momentum=0.5"}, 4, 0), 1 - 0.5F * (4 * 0.5F + 2));
  EXPECT_EQ(stepped(Optimiser::adagrad, {"epsilon=3"}, 2, 0), 1 - 0.5F * 2 / 3);
  EXPECT_EQ(stepped(Optimiser::adam, {"first_rate=0.5", "second_rate=1", "epsilon=2"}, 0, 0),
            1 - 1 * 0.5F / (2 + 2));
}

}  // namespace
}  // namespace tmflow
