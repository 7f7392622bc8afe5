// The yield of a core's second hardware thread: the work of both together, divided by that of one alone.
#include <array>
#include <cstdint>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::probe {
namespace {

constexpr double kMostYieldSeconds = 0.3;

// Four chains of multiplications: almost only arithmetic.
double compute(std::uint64_t (&state)[4]) {
  constexpr int kTimes = 10'000;
  for (int i = 0; i < kTimes; ++i) {
    for (std::uint64_t& word : state) word = word * 0x9E3779B97F4A7C15u + 1;
    asm volatile("" : "+r"(state[0]), "+r"(state[1]), "+r"(state[2]), "+r"(state[3]));
  }
  return kTimes;
}

double compute_rate(const std::vector<int>& cpus, double seconds) {
  return rate_on(cpus, seconds, [](int) {
    return [state = std::array<std::uint64_t, 4>{1, 2, 3, 4}]() mutable {
      std::uint64_t words[4] = {state[0], state[1], state[2], state[3]};
      const double done = compute(words);
      state = {words[0], words[1], words[2], words[3]};
      return done;
    };
  });
}

// Updates of the study's softmax, each thread on its own variables.
double update_rate(const std::vector<int>& cpus, double seconds) {
  constexpr std::size_t kElements = 7850;
  return rate_on(cpus, seconds, [](int) {
    return [variable = LinesOf<float>(kElements), delta = LinesOf<float>(kElements, 1e-9f),
            kernel = find_kernel<float>()]() mutable {
      constexpr int kTimes = 50;
      for (int i = 0; i < kTimes; ++i) {
        kernel(variable.data(), delta.data(), 1e-3f, kElements);
        clear_upper_halves();
      }
      return double{kTimes};
    };
  });
}

}  // namespace

Json smt_yield(const std::vector<Cpu>& cpus, const Budget& budget) {
  const auto pair = sibling_pair(cpus);
  if (!pair) {
    throw NotMeasured(
        "this process cannot use two hardware threads of one core: simultaneous multithreading is absent, "
        "off or not reported");
  }
  const double seconds = std::min(kMostYieldSeconds, budget.left() / 4);
  const std::vector<int> one{pair->one.number}, both{pair->one.number, pair->other.number};
  return Json::Object{{"one", pair->one.number},
                      {"other", pair->other.number},
                      {"compute", rounded(compute_rate(both, seconds) / compute_rate(one, seconds))},
                      {"update", rounded(update_rate(both, seconds) / update_rate(one, seconds))}};
}

}  // namespace tmflow::probe
