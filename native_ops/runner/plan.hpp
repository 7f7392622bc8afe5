// The study that is compiled into this program: data/native/study.jsonl, which
// src/tmflow/study/native_plan.py makes from config.yaml. Nothing in config.yaml is decided here.
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
  Json spec;  // as in a run file: every factor, null where it does not apply
  std::string sha256;
  std::map<std::string, std::string> environment;  // variables with which its process is started
  std::vector<std::string> parameters;             // of the strategy, "name=value"
  std::string evidence;
  Json mechanism;       // of the transactions that it tries; null if none
  Json fused;           // the variables whose updates are fused with their gradients
  bool times_locks;     // whether the counters include times under locks
  int variant;          // points with the same value share a warm-up
  int from_processors;  // machines with fewer hardware threads leave it out

  // The value of a factor; the point must have it.
  const std::string& text(std::string_view factor) const { return spec.at(factor).text(); }
  int whole(std::string_view factor) const { return static_cast<int>(spec.at(factor).integer()); }
};

// A named grid, at one scale.
struct Experiment {
  Json ref;                   // the `experiment` of its runs
  std::string name, scale;    // parts of `ref`
  std::string definition_id;  // for paths
  int rounds;
  double trial_timeout_s;
  std::vector<Point> points;

  // The points that a machine with so many hardware threads runs.
  std::vector<Point> points_for(int processors) const;
};

struct Study {
  Json files;  // of MNIST, by role
  std::string dataset_sha256;
  std::map<std::string, Json> backends;  // by the profile of the emulated machine
  std::vector<Experiment> experiments;

  // The experiments of a scale: the named ones, or all if none is named. Throws BadInput for unknown names.
  std::vector<Experiment> at(std::string_view scale, const std::vector<std::string>& names) const;
};

const Study& study();

}  // namespace tmflow::runner
