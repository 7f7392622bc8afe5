// `tmflow-native bench`: the time of an update under each strategy, in full contention.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/families.hpp"
#include "runner/machine_lock.hpp"
#include "runner/options.hpp"
#include "runner/possible.hpp"
#include "runner/turns.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/format/json.hpp"
#include "tmflow/measure/audit.hpp"
#include "tmflow/measure/bench.hpp"

namespace tmflow::runner {
namespace {

constexpr double kTargetS = 0.03;  // of one measurement: hundreds of times the time to wake the threads
constexpr int kMostUpdates = 1'000'000'000;
constexpr double kBytesPerElement = 12;  // the variable and the gradient are read, the variable is written

// A strategy, or only the writing of gradients, for one size, number of threads and kind of gradient.
struct Cell {
  std::optional<Listed> strategy;
  std::int64_t elements;
  int threads;
  bool fresh;  // each thread writes its gradient before every update

  AuditReport measure(int updates) const {
    const AuditPlan plan{.threads = threads,
                         .updates = updates,
                         .elements = elements,
                         .stop_together = true,
                         .fresh_gradient = fresh};
    if (!strategy) {
      bench::NoUpdate none;
      return audit<float>(none, plan);
    }
    const auto made = make_strategy<ArrayRegion<float>>(strategy->info.name);
    return audit<float>(*made, plan);
  }

  // The updates per thread that take about the time of one measurement.
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

  std::string_view gradient() const { return fresh ? "fresh" : "constant"; }
};

// The measurements of a cell, one per round.
struct Measured {
  std::vector<AuditReport> reports;
  std::vector<int> turns;  // its position in each round, from 0 on
};

double us_per_update(const AuditReport& report) {
  return 1e6 * report.seconds / static_cast<double>(report.made);
}

// All rounds of a cell, with the field names of `tmflow bench apply --json`. A value is null if an update
// took no longer than writing its gradient. `writing`: the cell that only writes gradients, of the same size
// and threads, if the gradient is fresh.
Json row_of(const Cell& cell, const Measured& measured, const Measured* writing) {
  AuditReport all;
  double logarithms = 0;
  Json::Array by_round, with_writing, turns;
  Json::Object aborts;
  std::int64_t aborted = 0;
  for (std::size_t round = 0; round < measured.reports.size(); ++round) {
    const AuditReport& report = measured.reports[round];
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
    const double us = us_per_update(report) - (writing ? us_per_update(writing->reports[round]) : 0);
    if (us <= 0) return {};
    by_round.push_back(us);
    with_writing.push_back(us_per_update(report));
    turns.push_back(measured.turns[round]);
    logarithms += std::log(us);
  }
  for (const auto& [status, n] : all.aborts) aborts[raw_code(status)] = n;
  const Listed& strategy = *cell.strategy;
  const std::vector<Parameter> known = strategy.parameters();
  const Parameters values(strategy.info.name, known, {});
  Json::Object parameters;
  for (const auto& [name, value] : values.values()) parameters[name] = value;
  const double us = std::exp(logarithms / static_cast<double>(by_round.size()));
  const std::int64_t sections = all.commits + all.fallbacks;
  const auto share = [](std::int64_t part, std::int64_t of, bool known) {
    return known && of > 0 ? Json(static_cast<double>(part) / static_cast<double>(of)) : Json();
  };
  return Json::Object{
      {"aborts", aborts},
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
      {"gradient", cell.gradient()},
      {"lost_fraction", all.lost_fraction()},
      {"oversubscribed", cell.threads > cpus_allowed()},
      {"parameters", parameters},
      {"consistency", name_of(strategy.updates_over(values, static_cast<std::size_t>(cell.elements)))},
      {"rounds", measured.reports.size()},
      {"strategy", strategy.info.name},
      {"threads", cell.threads},
      {"turn_by_round", turns},
      {"updates", all.made},
      {"us_by_round", by_round},
      {"us_per_update", us},
      {"us_with_writing_by_round", writing ? Json(with_writing) : Json()},
      {"variant", strategy.info.name}};
}

bool kept(const Json& row) {
  return row.at("consistency").text() == "none" ||
         (row.at("lost_fraction").number() == 0 && row.at("doubled").integer() == 0 &&
          row.at("corrupt_elements").integer() == 0);
}

// The strategies to measure: those on the command line, or all that can run in this process. Prints those
// that cannot.
std::vector<Listed> chosen(const Options& options) {
  std::vector<Listed> found;
  if (!options.has("strategy")) {
    for (const Listed& listed : listed_strategies()) {
      auto reason = never(listed.info.name);
      if (!reason && listed.info.own_process) reason = "it needs a separate process";
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

// Measures the cells in turn, so that drift affects all of them equally. Cells of one size, number of threads
// and kind of gradient are `together`.
std::vector<Json> rows_of(const std::vector<std::vector<Cell>>& together, int rounds, int seed) {
  struct Place {
    std::size_t group, cell;
  };
  std::vector<std::vector<Place>> places(together.size());
  std::vector<std::vector<int>> updates(together.size());
  std::vector<std::vector<Measured>> measured(together.size());
  for (std::size_t group = 0; group < together.size(); ++group) {
    measured[group].resize(together[group].size());
    for (std::size_t cell = 0; cell < together[group].size(); ++cell) {
      places[group].push_back({group, cell});
      updates[group].push_back(together[group][cell].calibrated());
    }
  }
  for (int round = 1; round <= rounds; ++round) {
    int turn = 0;
    for (const auto& [group, cell] : turns(places, seed, round)) {
      Measured& cell_measured = measured[group][cell];
      cell_measured.reports.push_back(together[group][cell].measure(updates[group][cell]));
      cell_measured.turns.push_back(turn++);
    }
  }
  std::vector<Json> rows;
  for (std::size_t group = 0; group < together.size(); ++group) {
    const std::vector<Cell>& cells = together[group];
    const Measured* writing = cells.back().strategy ? nullptr : &measured[group].back();
    for (std::size_t cell = 0; cell < cells.size(); ++cell) {
      if (!cells[cell].strategy) continue;
      rows.push_back(row_of(cells[cell], measured[group][cell], writing));
      if (!rows.back().is_null()) continue;
      rows.pop_back();
      std::cerr << "tmflow-native: not measured: " << cells[cell].strategy->info.name << " with "
                << cells[cell].elements << " elements, " << cells[cell].threads
                << " threads: in one round it took no longer than writing its gradient.\n";
    }
  }
  return rows;
}

// Prints a line for each strategy, size and number of threads, with the kinds of gradient side by side.
void print_table(const std::vector<Json>& rows, const std::vector<std::string>& gradients) {
  std::printf("%-18s%12s%9s", "strategy", "elements", "threads");
  for (const std::string& gradient : gradients) {
    std::printf("%26s%10s%10s", ("us per update, " + gradient).c_str(), "GB/s", "lost");
  }
  std::printf("\n");
  std::map<std::string, std::map<std::string, Json>> lines;
  std::vector<std::string> order;
  for (const Json& row : rows) {
    char what[64];
    std::snprintf(what, sizeof what, "%-18s%12lld%9lld", row.at("strategy").text().c_str(),
                  static_cast<long long>(row.at("elements").integer()),
                  static_cast<long long>(row.at("threads").integer()));
    if (!lines.contains(what)) order.emplace_back(what);
    lines[what][row.at("gradient").text()] = row;
  }
  for (const std::string& what : order) {
    std::printf("%s", what.c_str());
    for (const std::string& gradient : gradients) {
      const auto row = lines[what].find(gradient);
      if (row == lines[what].end()) {
        std::printf("%26s%10s%10s", "", "", "");
      } else {
        std::printf("%26.3f%10.2f%8.2f %%", row->second.at("us_per_update").number(),
                    row->second.at("gb_per_s").number(), 100 * row->second.at("lost_fraction").number());
      }
    }
    std::printf("\n");
  }
}

// The requested kinds of gradient, without duplicates.
std::vector<std::string> gradients_of(const Options& options) {
  std::vector<std::string> given = options.list("gradient", "fresh");
  for (const std::string& word : given) {
    if (word != "constant" && word != "fresh") {
      throw BadInput("gradient is '" + word + "', but should be constant, fresh, or constant,fresh.");
    }
  }
  if (given.size() > 1 && given.front() == given.back())
    throw BadInput("gradient names '" + given.front() + "' twice.");
  return given;
}

}  // namespace

int command_bench(const Arguments& arguments) {
  const Options options(arguments, {"elements", "threads", "strategy", "gradient", "rounds", "seed"},
                        {"json"});
  const std::vector<int> sizes = options.numbers("elements", "10,7850,3211264", 1, 100'000'000);
  const std::string counts = cpus_allowed() >= 4 ? "1,2,4" : cpus_allowed() >= 2 ? "1,2" : "1";
  const std::vector<int> threads = options.numbers("threads", counts, 1, AuditPlan::kMaxThreads);
  const std::vector<std::string> gradients = gradients_of(options);
  const int rounds = options.number("rounds", 4, 1, 1000);
  const int seed = options.number("seed", 0, 0, std::numeric_limits<int>::max());
  std::vector<std::vector<Cell>> cells;
  const std::vector<Listed> strategies = chosen(options);
  for (const int elements : sizes) {
    for (const int count : threads) {
      for (const std::string& gradient : gradients) {
        std::vector<Cell>& together = cells.emplace_back();
        const bool fresh = gradient == "fresh";
        for (const Listed& strategy : strategies) together.push_back({strategy, elements, count, fresh});
        if (fresh) together.push_back({std::nullopt, elements, count, fresh});
      }
    }
  }
  const HeldFile machine = machine_to_itself();
  const std::vector<Json> rows = rows_of(cells, rounds, seed);
  if (options.has("json")) {
    for (const Json& row : rows) std::cout << canonical(row) << '\n';
  } else {
    print_table(rows, gradients);
  }
  int code = 0;
  for (const Json& row : rows) {
    if (kept(row)) continue;
    std::cerr << "tmflow-native: " << row.at("strategy").text() << " violates its consistency guarantee, "
              << row.at("consistency").text() << ".\n";
    code = 1;
  }
  return code;
}

}  // namespace tmflow::runner
