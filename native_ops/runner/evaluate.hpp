// The accuracy of a model as its variables are.
#pragma once

#include "runner/mnist.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::runner {

// Share of the first `test_images` test images that the trial's variables classify correctly. `sigmoid`: the
// activation of hidden layers, else ReLU. Throws Diverged if a variable, or a score that it gives, is not
// finite: there is no accuracy then. Called while nobody runs.
double accuracy(train::Trial& trial, const TrialData& data, std::size_t test_images, bool sigmoid);

}  // namespace tmflow::runner
