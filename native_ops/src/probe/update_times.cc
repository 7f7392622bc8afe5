// The fastest update by one thread of its own memory: a plain loop without a strategy and without contention.
#include <algorithm>
#include <limits>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::probe {
namespace {

// The biases of the softmax, about the size of a filter, the softmax's weights, and the dense layers of both
// models.
constexpr std::size_t kSizes[] = {10, 1280, 7850, 100'352, 3'211'264};
constexpr double kBatch = 20e-6;  // seconds; reading the clock takes a small part of it

double fastest_ns(std::size_t elements, double seconds) {
  LinesOf<float> variable(elements), delta(elements, 1e-9f);
  const Kernel<float> kernel = find_kernel<float>();
  const auto batch = [&](std::size_t times) {
    const auto began = Clock::now();
    for (std::size_t i = 0; i < times; ++i) {
      kernel(variable.data(), delta.data(), 1e-3f, elements);
      // As every update does. Without it the next call begins with narrow instructions on registers whose
      // upper halves are in use, which costs more than 100 ns on some processors.
      clear_upper_halves();
    }
    return seconds_since(began);
  };
  const auto fastest_of = [&](int tries, std::size_t times) {
    double fastest = batch(times);
    for (int i = 1; i < tries; ++i) fastest = std::min(fastest, batch(times));
    return fastest;
  };
  std::size_t times = 1;
  while (fastest_of(5, times) < kBatch) times *= 2;
  double fastest = std::numeric_limits<double>::infinity();
  for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
    fastest = std::min(fastest, batch(times) / static_cast<double>(times));
  }
  return 1e9 * fastest;
}

}  // namespace

Json update_times(const std::vector<Cpu>& cpus, const Budget& budget) {
  const double seconds = budget.left() / static_cast<double>(std::size(kSizes));
  std::vector<double> ns;
  run_on({cpus.back().number}, [&](int, std::barrier<>&) {
    for (const std::size_t elements : kSizes) ns.push_back(fastest_ns(elements, seconds));
  });
  Json::Array rows;
  for (std::size_t i = 0; i < ns.size(); ++i) {
    rows.push_back(Json::Object{{"elements", kSizes[i]}, {"ns", rounded(ns[i])}});
  }
  return rows;
}

}  // namespace tmflow::probe
