// `tmflow-native run`: measures what the study lacks.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "runner/campaign.hpp"
#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/journal.hpp"
#include "runner/machine_lock.hpp"
#include "runner/mnist.hpp"
#include "runner/options.hpp"
#include "runner/possible.hpp"
#include "runner/round.hpp"
#include "runner/supervise.hpp"

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

constexpr int kMostRounds = 1000;

// Chooses `n` of the points, evenly spaced, from the first on.
std::vector<Point> evenly_chosen(const std::vector<Point>& points, int n) {
  const std::size_t wanted = std::min(static_cast<std::size_t>(n), points.size());
  std::vector<Point> chosen;
  for (std::size_t i = 0; i < wanted; ++i) chosen.push_back(points[i * points.size() / wanted]);
  return chosen;
}

// Every round of the experiments, measured or not, without a campaign.
std::vector<Job> rounds_of(const std::vector<Experiment>& experiments, const fs::path& results,
                           const Options& options) {
  std::vector<Job> jobs;
  for (Experiment one : experiments) {
    one.trial_timeout_s = options.seconds("trial-timeout", one.trial_timeout_s);
    std::vector<Point> points = one.points_for(cpus_allowed());
    if (options.has("points")) points = evenly_chosen(points, options.number("points", 1, 1, kMostRounds));
    const int rounds = options.number("rounds", one.rounds, 1, kMostRounds);
    for (int number = 1; number <= rounds; ++number) {
      char name[32];
      std::snprintf(name, sizeof name, "round-%03d.jsonl", number);
      jobs.push_back(
          {.campaign = {},
           .experiment = one,
           .points = points,
           .number = number,
           .run_file = fs::absolute(results) / "runs" / one.scale / one.name / one.definition_id / name,
           .data = options.value("data")});
    }
  }
  return jobs;
}

void report(const Job& job, std::size_t done, std::size_t all, double seconds) {
  std::map<std::string, int> by_status;
  for (const Json& run : read_runs(job.run_file)) ++by_status[run.at("status").text()];
  std::string statuses;
  for (const auto& [status, n] : by_status) statuses += ", " + std::to_string(n) + " " + status;
  std::printf("%zu of %zu: %s, round %d: %.1f s%s\n", done, all, job.experiment.name.c_str(), job.number,
              seconds, statuses.c_str());
  std::fflush(stdout);
}

void measure(std::vector<Job>& todo, const Campaign& campaign) {
  std::size_t done = 0;
  for (Job& job : todo) {
    const auto began = std::chrono::steady_clock::now();
    job.campaign = campaign.ref();
    run_round(job);
    report(job, ++done, todo.size(),
           std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count());
  }
}

// The children end with this process.
void stopped(int signal) {
  constexpr char said[] =
      "\ntmflow-native: stopped; finished trials are kept. Run the same command again to continue.\n";
  if (write(STDERR_FILENO, said, sizeof said - 1) < 0) _exit(1);
  _exit(128 + signal);
}

}  // namespace

std::string results_folder(const Options& options) {
  const char* const named = std::getenv("TMFLOW_RESULTS_DIR");
  return options.value("results").value_or(named == nullptr || *named == '\0' ? "results" : named);
}

int command_run(const Arguments& arguments) {
  // `points` is for tests: it limits the points of each experiment.
  const Options options(arguments,
                        {"scale", "experiment", "rounds", "data", "results", "trial-timeout", "points"}, {});
  const std::string scale = options.one_of("scale", {"full", "quick"});
  const fs::path results = results_folder(options);
  std::vector<Job> todo = rounds_of(study().at(scale, options.list("experiment")), results, options);
  find_mnist(study().files, options.value("data"));  // fails before anything is begun
  const HeldFile held = results_to_itself(results);
  std::erase_if(todo, is_done);
  if (todo.empty()) {
    std::cout << "Nothing to do: everything is already measured.\n";
    return 0;
  }
  for (const int one : {SIGINT, SIGTERM}) signal(one, stopped);
  Campaign campaign(results, scale);
  const auto is_finished = [&] {
    const Options all({}, {}, {});
    return std::ranges::all_of(rounds_of(study().at(scale, {}), results, all), is_done);
  };
  try {
    measure(todo, campaign);
  } catch (...) {
    campaign.end(false);
    throw;
  }
  campaign.end(is_finished());
  std::cout << "Done: the runs are in " << (results / "runs" / scale).string()
            << ". Export them with: tmflow-native export --results " << results.string() << "\n";
  return 0;
}

int command_round(const Arguments& arguments) {
  if (arguments.size() != 2) throw BadInput("`round` is internal: `run` starts it.");
  run_process_of_round(Job::from_text(arguments[0]), static_cast<std::size_t>(std::stoul(arguments[1])));
  return 0;
}

}  // namespace tmflow::runner
