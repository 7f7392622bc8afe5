// One training run of a point, as in src/tmflow/training/native_driver.py.
#pragma once

#include <cstdint>

#include "runner/mnist.hpp"
#include "runner/plan.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// Trains from fresh initial values; returns the fields of a run that a trial measures. Throws Unsupported if
// it cannot run here, and Diverged if a variable or a score of a test image is not finite when the accuracy
// is measured.
Json::Object run_trial(const Point& point, std::uint32_t seed, const TrialData& data);

// A short discarded trial with so many workers. It wakes the processors and brings the data into their
// caches.
void warm_up(const Point& point, int workers, int batch, const TrialData& data);

}  // namespace tmflow::runner
