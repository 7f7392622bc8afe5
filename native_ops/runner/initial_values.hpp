// The variables as a trial begins.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tmflow/train/placement.hpp"

namespace tmflow::runner {

// One vector per variable of the model, as src/tmflow/training/models draws them for this seed. Throws
// std::invalid_argument for a model that it does not know.
std::vector<std::vector<float>> initial_values(std::string_view model,
                                               const std::vector<train::VariableShape>& shapes,
                                               std::uint32_t seed);

// The inverse of the normal distribution's cumulative function, for probabilities of -2 to 2 deviations.
double normal_quantile(double probability);

}  // namespace tmflow::runner
