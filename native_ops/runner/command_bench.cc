// `tmflow-native bench`: what an update costs under each strategy, in full contention.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/families.hpp"
#include "runner/machine_lock.hpp"
#include "runner/options.hpp"
#include "runner/possible.hpp"
#include "tmflow/audit.hpp"
#include "tmflow/json.hpp"
#include "tmflow/registry.hpp"

namespace tmflow::runner {
namespace {

constexpr double kTargetS = 0.03;  // of one measurement: hundreds of times what waking the threads takes
constexpr int kMostUpdates = 1'000'000'000;
constexpr double kBytesPerElement = 12;  // variable and gradient are read, the variable is written

// One size and number of threads under one strategy.
struct Cell {
  Listed strategy;
  std::int64_t elements;
  int threads;

  AuditReport measure(int updates) const {
    const auto its = make_strategy<ArrayRegion<float>>(strategy.info.name);
    const AuditPlan plan{.threads = threads, .updates = updates, .elements = elements, .stop_together = true};
    return audit<float>(*its, plan);
  }

  // Updates of each thread that take about the time of one measurement.
  int calibrated() const {
    for (double updates = 1;;) {
      const double seconds = measure(static_cast<int>(updates)).seconds;
      const double wanted = updates * kTargetS / std::max(seconds, 1e-9);
      if (seconds >= kTargetS / 4 || updates >= kMostUpdates) {
        return static_cast<int>(std::clamp(wanted, 1.0, double{kMostUpdates}));
      }
      updates = std::clamp(wanted, 2 * updates, std::min(10 * updates, double{kMostUpdates}));
    }
  }
};

double us_per_update(const AuditReport& report) {
  return 1e6 * report.seconds / static_cast<double>(report.made);
}

// All rounds of a cell, with the names that `tmflow bench apply --json` gives them.
Json row_of(const Cell& cell, const std::vector<AuditReport>& rounds) {
  AuditReport all;
  double logarithms = 0;
  Json::Array by_round;
  Json::Object aborts;
  std::int64_t aborted = 0;
  for (const AuditReport& report : rounds) {
    all.made += report.made;
    all.expected += report.expected;
    all.tally += report.tally;
    all.commits += report.commits;
    all.fallbacks += report.fallbacks;
    all.attempts_known &= report.attempts_known;
    for (const auto& [status, n] : report.aborts) {
      all.aborts[status] += n;
      aborted += n;
    }
    by_round.push_back(us_per_update(report));
    logarithms += std::log(us_per_update(report));
  }
  for (const auto& [status, n] : all.aborts) aborts[raw_code(status)] = n;
  Json::Object parameters;
  for (const Parameter& parameter : cell.strategy.parameters()) {
    parameters[std::string(parameter.name)] = parameter.fallback;
  }
  const double us = std::exp(logarithms / static_cast<double>(rounds.size()));
  const std::int64_t sections = all.commits + all.fallbacks;
  const auto share = [](std::int64_t part, std::int64_t of, bool known) {
    return known && of > 0 ? Json(static_cast<double>(part) / static_cast<double>(of)) : Json();
  };
  return Json::Object{{"aborts", aborts},
                      {"aborts_per_commit", share(aborted, all.commits, all.attempts_known)},
                      {"aborts_per_update", share(aborted, all.made, all.attempts_known && sections > 0)},
                      {"attempts_known", all.attempts_known},
                      {"commit_fraction", share(all.commits, sections, true)},
                      {"commits", all.commits},
                      {"corrupt_elements", all.tally.corrupt},
                      {"doubled", all.tally.doubled},
                      {"elements", cell.elements},
                      {"fallbacks", all.fallbacks},
                      {"gb_per_s", kBytesPerElement * static_cast<double>(cell.elements) / us / 1e3},
                      {"lost_fraction", all.lost_fraction()},
                      {"oversubscribed", cell.threads > cpus_allowed()},
                      {"parameters", parameters},
                      {"promise", name_of(cell.strategy.info.updates)},
                      {"rounds", rounds.size()},
                      {"strategy", cell.strategy.info.name},
                      {"threads", cell.threads},
                      {"updates", all.made},
                      {"us_by_round", by_round},
                      {"us_per_update", us},
                      {"variant", cell.strategy.info.name}};
}

bool kept(const Json& row) {
  return row.at("promise").text() == "none" ||
         (row.at("lost_fraction").number() == 0 && row.at("doubled").integer() == 0 &&
          row.at("corrupt_elements").integer() == 0);
}

// The strategies to measure: those that are named, or all that run in this process; says which do not.
std::vector<Listed> chosen(const Options& options) {
  std::vector<Listed> found;
  if (!options.has("strategy")) {
    for (const Listed& listed : listed_strategies()) {
      auto reason = never(listed.info.name);
      if (!reason && listed.info.own_process) reason = "it needs a process of its own";
      if (!reason) {
        found.push_back(listed);
      } else {
        std::cerr << "tmflow-native: not measured: " << listed.info.name << ": " << *reason << "\n";
      }
    }
  }
  for (const std::string& name : options.list("strategy")) {
    try {
      found.push_back(listed_strategy(name));
      if (const auto reason = tmflow::why_not(name, {}))
        throw BadInput(name + " cannot run here: " + *reason + ".");
    } catch (const std::invalid_argument& error) {
      throw BadInput(std::string(error.what()) + ".");
    }
  }
  return found;
}

// The cells in turns, so that what drifts hits all alike.
std::vector<Json> measured(const std::vector<Cell>& cells, int rounds) {
  std::vector<int> updates;
  for (const Cell& cell : cells) updates.push_back(cell.calibrated());
  std::vector<std::vector<AuditReport>> reports(cells.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < cells.size(); ++i) reports[i].push_back(cells[i].measure(updates[i]));
  }
  std::vector<Json> rows;
  for (std::size_t i = 0; i < cells.size(); ++i) rows.push_back(row_of(cells[i], reports[i]));
  return rows;
}

void print_table(const std::vector<Json>& rows) {
  std::printf("%-18s%12s%9s%16s%10s%12s\n", "strategy", "elements", "threads", "us per update", "GB/s",
              "lost");
  for (const Json& row : rows) {
    std::printf("%-18s%12lld%9lld%16.3f%10.2f%11.2f %%\n", row.at("strategy").text().c_str(),
                static_cast<long long>(row.at("elements").integer()),
                static_cast<long long>(row.at("threads").integer()), row.at("us_per_update").number(),
                row.at("gb_per_s").number(), 100 * row.at("lost_fraction").number());
  }
}

}  // namespace

int command_bench(const Arguments& arguments) {
  const Options options(arguments, {"elements", "threads", "strategy", "rounds"}, {"json"});
  const std::vector<int> sizes = options.numbers("elements", "10,7850,3211264", 1, 100'000'000);
  const std::string counts = cpus_allowed() >= 4 ? "1,2,4" : cpus_allowed() >= 2 ? "1,2" : "1";
  const std::vector<int> threads = options.numbers("threads", counts, 1, AuditPlan::kMaxThreads);
  const int rounds = options.number("rounds", 4, 1, 1000);
  std::vector<Cell> cells;
  const std::vector<Listed> strategies = chosen(options);
  for (const int elements : sizes) {
    for (const int count : threads) {
      for (const Listed& strategy : strategies) cells.push_back({strategy, elements, count});
    }
  }
  const HeldFile machine = machine_to_itself();
  const std::vector<Json> rows = measured(cells, rounds);
  if (options.has("json")) {
    for (const Json& row : rows) std::cout << canonical(row) << '\n';
  } else {
    print_table(rows);
  }
  int code = 0;
  for (const Json& row : rows) {
    if (kept(row)) continue;
    std::cerr << "tmflow-native: " << row.at("strategy").text() << " promises " << row.at("promise").text()
              << " and did not keep it.\n";
    code = 1;
  }
  return code;
}

}  // namespace tmflow::runner
