// The costs of begin, commit and abort of an empty transaction, measured with the processor's own clock.
#include <algorithm>
#include <vector>

#include "running.hpp"
#include "tmflow/probe/instructions.hpp"
#include "tmflow/probe/parts.hpp"

namespace tmflow::probe {
namespace {

constexpr int kSamples = 20'001;

template <class Sample>
double median_of(const Sample& sample) {
  std::vector<double> samples;
  samples.reserve(kSamples);
  for (int i = 0; i < kSamples; ++i) {
    if (const auto value = sample()) samples.push_back(static_cast<double>(*value));
  }
  if (samples.empty()) throw NotMeasured("no empty transaction committed");
  return median(std::move(samples));
}

double ns_per_tick(const Instructions& processor) {
  const auto began = Clock::now();
  const std::uint64_t first = processor.ticks();
  double seconds;
  while ((seconds = seconds_since(began)) < 0.05) {
  }
  return 1e9 * seconds / static_cast<double>(processor.ticks() - first);
}

// Empty transactions one after another, by the system's clock: the sum that begin and commit should have.
double empty_ns(const Instructions& processor) {
  constexpr int kTimes = 1000;
  std::vector<double> samples;
  for (int repeat = 0; repeat < 101; ++repeat) {
    const auto began = Clock::now();
    for (int i = 0; i < kTimes; ++i) {
      htm::Ended ended;
      processor.attempt({}, ended);
    }
    samples.push_back(1e9 * seconds_since(began) / kTimes);
  }
  return median(samples);
}

}  // namespace

Json find_costs(Budget budget) {
  Findings found;
  const Instructions& processor = *instructions();
  using Ticks = std::optional<std::uint64_t>;
  const double tick_ns = ns_per_tick(processor);
  const double reading = median_of([&]() -> Ticks {
    const std::uint64_t first = processor.ticks();
    return processor.ticks() - first;
  });
  const auto between = [&](int from, int to) {
    return [&, from, to]() -> Ticks {
      std::uint64_t ticks[3];
      return processor.timed_commit(ticks) ? Ticks(ticks[to] - ticks[from]) : std::nullopt;
    };
  };
  const auto ns = [&](double ticks) { return std::max(0.0, (ticks - reading) * tick_ns); };

  found.find("empty_ns", [&] {
    budget.check();
    return empty_ns(processor);
  });
  const auto begin = found.find("begin_ns", [&] { return ns(median_of(between(0, 1))); });
  found.find("commit_ns", [&] { return ns(median_of(between(1, 2))); });
  found.find("abort_ns", [&] {
    const double both = ns(median_of([&]() -> Ticks {
      std::uint64_t ticks[2];
      processor.timed_abort(ticks);
      return ticks[1] - ticks[0];
    }));
    return std::max(0.0, both - needed(begin, "the cost of a begin"));
  });
  found.set("clock_ns", rounded(tick_ns));
  return found.json();
}

}  // namespace tmflow::probe
