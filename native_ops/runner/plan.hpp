// The study that this program carries: data/native/study.jsonl, made of config.yaml by
// src/tmflow/study/native_plan.py. Nothing of config.yaml is decided here.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// One combination of factors.
struct Point {
  Json spec;  // as a run file has it: every factor, null where it does not apply
  std::string sha256;
  std::map<std::string, std::string> environment;  // that its process is started with
  std::vector<std::string> parameters;             // of the strategy, "name=value"
  std::string evidence;
  Json mechanism;       // whose transactions it tries; null if none
  Json fused;           // the variables whose updates are fused with their gradients
  bool times_locks;     // whether the counters tell the times under locks
  int variant;          // points of the same are warmed up together
  int from_processors;  // a machine with fewer hardware threads leaves it out

  // The value of a factor that it has.
  const std::string& text(std::string_view factor) const { return spec.at(factor).text(); }
  int whole(std::string_view factor) const { return static_cast<int>(spec.at(factor).integer()); }
};

// A named grid, at one scale.
struct Experiment {
  Json ref;                   // the `experiment` of its runs
  std::string name, scale;    // of that
  std::string definition_id;  // for paths
  int rounds;
  double trial_timeout_s;
  std::vector<Point> points;

  // Those that a machine with so many hardware threads is to run.
  std::vector<Point> points_for(int processors) const;
};

struct Study {
  Json files;  // of MNIST, by role
  std::string dataset_sha256;
  std::map<std::string, Json> backends;  // by the profile of the machine that is emulated
  std::vector<Experiment> experiments;

  // Those of a scale; of these the named ones, or all if none is named. Throws BadInput for other names.
  std::vector<Experiment> at(std::string_view scale, const std::vector<std::string>& names) const;
};

const Study& study();

}  // namespace tmflow::runner
