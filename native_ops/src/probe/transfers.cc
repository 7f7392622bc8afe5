// The time in which a cache line moves from one core to another: two threads write it alternately.
#include <algorithm>
#include <atomic>
#include <map>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::probe {
namespace {

constexpr int kTurns = 2000, kRepeats = 9;
constexpr std::size_t kMostCpus = 8;

// At most kMostCpus processors, spread over all. The first two of one core are among them.
std::vector<Cpu> spread(const std::vector<Cpu>& cpus) {
  if (cpus.size() <= kMostCpus) return cpus;
  std::vector<Cpu> chosen;
  if (const auto pair = sibling_pair(cpus)) chosen.push_back(pair->other);
  for (std::size_t i = 0; chosen.size() < kMostCpus; ++i) {
    const Cpu& cpu = cpus[i * cpus.size() / kMostCpus];
    if (chosen.empty() || cpu.number != chosen.front().number) chosen.push_back(cpu);
  }
  return chosen;
}

// Memory ordering: each turn is one release and one acquire of the word; it passes no other data.
double ns_between(const Cpu& one, const Cpu& other) {
  Padded<std::atomic<int>> word(0);
  std::vector<double> samples;
  run_on({one.number, other.number}, [&](int i, std::barrier<>& together) {
    for (int repeat = 0; repeat < kRepeats; ++repeat) {
      together.arrive_and_wait();
      const auto began = Clock::now();
      const int first = repeat * 2 * kTurns + i;
      for (int turn = first; turn < first + 2 * kTurns; turn += 2) {
        // Plain spinning: a pause would be longer than the measured time. The occasional yield is for the
        // case that the other thread has lost its processor.
        for (int spins = 1; word.value.load(std::memory_order_acquire) != turn; ++spins) {
          if (spins % 100'000 == 0) std::this_thread::yield();
        }
        word.value.store(turn + 1, std::memory_order_release);
      }
      if (i == 0) samples.push_back(1e9 * seconds_since(began) / (2 * kTurns));
    }
  });
  return median(samples);
}

}  // namespace

Json line_transfers(const std::vector<Cpu>& cpus, const Budget& budget) {
  if (cpus.size() < 2) throw NotMeasured("this process may use only one processor");
  const std::vector<Cpu> chosen = spread(cpus);
  Json::Array pairs;
  std::map<std::string_view, std::vector<double>> by_relation;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    for (std::size_t j = i + 1; j < chosen.size(); ++j) {
      if (budget.over() && !pairs.empty()) break;
      const double ns = ns_between(chosen[i], chosen[j]);
      const std::string_view what = relation(chosen[i], chosen[j]);
      by_relation[what].push_back(ns);
      pairs.push_back(Json::Object{
          {"one", chosen[i].number}, {"other", chosen[j].number}, {"relation", what}, {"ns", rounded(ns)}});
    }
  }
  Json::Array relations;
  for (auto& [what, all] : by_relation) {
    relations.push_back(
        Json::Object{{"relation", what}, {"median_ns", rounded(median(all))}, {"pairs", all.size()}});
  }
  return Json::Object{{"pairs", pairs}, {"relations", relations}};
}

}  // namespace tmflow::probe
