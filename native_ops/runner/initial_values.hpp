// The initial values of the variables of a trial.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tmflow/train/placement.hpp"

namespace tmflow::runner {

// One vector per variable of the model, as src/tmflow/training/models draws them for this seed. Throws
// std::invalid_argument for an unknown model.
std::vector<std::vector<float>> initial_values(std::string_view model,
                                               const std::vector<train::VariableShape>& shapes,
                                               std::uint32_t seed);

// The inverse of the normal cumulative distribution function, for probabilities of -2 to 2 standard
// deviations.
double normal_quantile(double probability);

}  // namespace tmflow::runner
