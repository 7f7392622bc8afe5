#include "runner/trial.hpp"

#include <algorithm>
#include <chrono>
#include <span>

#include "runner/errors.hpp"
#include "runner/evaluate.hpp"
#include "runner/families.hpp"
#include "runner/initial_values.hpp"
#include "runner/possible.hpp"
#include "tmflow/train/models.hpp"
#include "tmflow/train/trial.hpp"

namespace tmflow::runner {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUpSteps = 1000, kWarmUpImages = 500;

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

std::unique_ptr<train::Trial> make_trial(const Point& point) {
  train::ModelFactors factors{.matrix = static_cast<std::size_t>(point.whole("matrix"))};
  if (!point.spec.at("hidden").is_null()) factors.hidden = static_cast<std::size_t>(point.whole("hidden"));
  if (!point.spec.at("activation").is_null()) factors.activation = point.text("activation");
  using train::Layout, train::ReadingOf;
  const train::TrialPlan plan{
      .strategy = point.text("strategy"),
      .parameters = point.parameters,
      .workers = point.whole("threads"),
      .layout = point.text("layout") == "joined" ? Layout::joined : Layout::separate,
      .reading = point.text("reading") == "consistent" ? ReadingOf::consistent : ReadingOf::plain,
      .optimiser = optimiser_named(point.text("optimiser")),
      .pinned = point.text("pinning") == "cores",
      .full_measures = point.text("measures") == "full"};
  return std::make_unique<train::Trial>(train::make_model<float>(point.text("model"), factors), plan);
}

void set_initial_values(train::Trial& trial, const Point& point, std::uint32_t seed) {
  const auto values = initial_values(point.text("model"), trial.shapes(), seed);
  trial.set_variables({values.begin(), values.end()});
}

// The steps after which a trial pauses to measure its accuracy, outside the timed loop; from 0 to the last
// step.
std::vector<std::size_t> pauses(const Point& point) {
  const int steps = point.whole("iterations"), pieces = std::max(point.whole("curve_points"), 1);
  std::vector<std::size_t> bounds;
  for (int i = 0; i < pieces; ++i) {
    bounds.push_back(static_cast<std::size_t>(i * (static_cast<double>(steps) / pieces)));
  }
  bounds.push_back(static_cast<std::size_t>(steps));
  return bounds;
}

// Takes all steps, from one pause to the next.
void train_through(train::Trial& trial, const Point& point, const TrialData& data,
                   std::span<const std::int64_t> starts, Json::Object& measured) {
  const auto batch = static_cast<std::size_t>(point.whole("batch"));
  const auto rate = static_cast<float>(point.spec.at("learning_rate").number());
  const auto test_images = static_cast<std::size_t>(point.whole("test_images"));
  const bool sigmoid = !point.spec.at("activation").is_null() && point.text("activation") == "sigmoid";
  double loop_s = 0, evaluation_s = 0, reached = 0;
  Json::Array curve;
  const std::vector<std::size_t> bounds = pauses(point);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    const auto steps = starts.subspan(bounds[i], bounds[i + 1] - bounds[i]);
    loop_s += trial.run({.set = data.training, .starts = steps, .batch = batch}, rate, {});
    const auto began = Clock::now();
    reached = accuracy(trial, data, test_images, sigmoid);
    evaluation_s += seconds_since(began);
    if (point.whole("curve_points") > 0) {
      curve.push_back(
          Json::Object{{"accuracy", reached}, {"elapsed_s", loop_s}, {"iteration", bounds[i + 1]}});
    }
  }
  measured["loop_s"] = loop_s;
  measured["evaluation_s"] = evaluation_s;
  measured["final_accuracy"] = reached;
  measured["curve"] = curve;
}

// The counts of one worker on one region; adds its rows to the lists of a run.
void count(const Point& point, int worker, const std::string& variable, const ThreadStats& stats,
           bool reports_torn, Json::Object& measured) {
  const Json::Object place{{"variable", variable}, {"worker", worker}};
  const auto add = [&](const char* list, Json::Object row) {
    row.insert(place.begin(), place.end());
    measured[list].append(std::move(row));
  };
  const bool transacts = !point.mechanism.is_null();
  const auto if_known = [&](bool known, auto value) { return known ? Json(value) : Json(); };
  add("counters",
      {{"attempts", transacts ? Json(known_attempts(stats)) : Json()},
       {"commits", if_known(transacts, stats.commits())},
       {"fallbacks", if_known(transacts, stats.fallbacks())},
       {"lock_held_s", if_known(point.times_locks, static_cast<double>(stats.held_ns()) / 1e9)},
       {"lock_waited_s", if_known(point.times_locks, static_cast<double>(stats.waited_ns()) / 1e9)},
       {"updates", stats.updates()}});
  for (const auto& [status, n] : stats.aborts()) {
    const std::string& mechanism = point.mechanism.text();
    add("aborts", {{"family", family(mechanism, status)},
                   {"mechanism", mechanism},
                   {"n", n},
                   {"raw_code", raw_code(status)}});
  }
  for (const Contention kind : kContentions) {
    const std::string name(name_of(kind));
    const std::string of = kind == Contention::retries ? "sections" : "updates";
    for (std::int64_t n = 0; n <= ThreadStats::kMost; ++n) {
      if (const std::int64_t times = stats.counted(kind, n)) add(name.c_str(), {{name, n}, {of, times}});
    }
  }
  if (reports_torn) add("reads", {{"reads", stats.reads()}, {"torn", stats.torn()}});
}

void count(const Point& point, train::Trial& trial, Json::Object& measured) {
  for (const char* list : {"aborts", "counters", "failed_publications", "lost", "reads", "retries",
                           "staleness", "taken_blocks"}) {
    measured[list] = Json::Array();
  }
  const std::vector<std::string>& regions = trial.region_names();
  for (int worker = 0; worker < trial.workers(); ++worker) {
    for (std::size_t region = 0; region < regions.size(); ++region) {
      count(point, worker, regions[region], trial.tracker().stats(worker, static_cast<int>(region)),
            trial.reports_torn_reads(region), measured);
    }
    for (const auto& [staleness, steps] : trial.tracker().staleness(worker)) {
      measured["staleness"].append(
          Json::Object{{"staleness", staleness}, {"steps", steps}, {"worker", worker}});
    }
  }
  if (point.text("measures") != "full") return;
  for (std::size_t region = 0; region < regions.size(); ++region) {
    const train::Trial::Lost lost = trial.lost(region);
    const bool has_slots = lost.inconsistent.has_value();
    measured["lost"].append(Json::Object{{"elements", has_slots ? Json(lost.elements) : Json()},
                                         {"expected", lost.expected},
                                         {"inconsistent", has_slots ? Json(*lost.inconsistent) : Json()},
                                         {"lost", lost.lost},
                                         {"variable", regions[region]}});
  }
}

}  // namespace

Json::Object run_trial(const Point& point, std::uint32_t seed, const TrialData& data) {
  if (const auto reason = why_not(point)) throw Unsupported(*reason);
  Json::Object measured{{"fused", point.fused}};
  const auto began = Clock::now();
  const auto trial = make_trial(point);
  set_initial_values(*trial, point, seed);
  const auto starts = batch_starts(seed, static_cast<std::size_t>(point.whole("batch")),
                                   static_cast<std::size_t>(point.whole("iterations")));
  measured["setup_s"] = seconds_since(began);
  train_through(*trial, point, data, starts, measured);
  if (const auto reason = why_not(point)) throw Unsupported(*reason);
  count(point, *trial, measured);
  return measured;
}

void warm_up(const Point& point, int workers, int batch, const TrialData& data) {
  Point brief = point;
  brief.spec["threads"] = workers;
  brief.spec["batch"] = batch;
  brief.spec["iterations"] = std::max(kWarmUpSteps, workers);
  brief.spec["test_images"] = std::min(kWarmUpImages, point.whole("test_images"));
  brief.spec["curve_points"] = 0;
  run_trial(brief, static_cast<std::uint32_t>(point.whole("seed")), data);
}

}  // namespace tmflow::runner
