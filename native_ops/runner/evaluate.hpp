// The accuracy of a model with its current variables.
#pragma once

#include "runner/mnist.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::runner {

// Share of the first `test_images` test images that the trial's variables classify correctly. `sigmoid`: the
// activation of the hidden layers is sigmoid, else ReLU. Throws Diverged if a variable or a score is not
// finite, because the accuracy is then undefined. Call it only while no worker runs.
double accuracy(train::Trial& trial, const TrialData& data, std::size_t test_images, bool sigmoid);

}  // namespace tmflow::runner
