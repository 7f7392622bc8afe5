// A run: one line of a run file, as in src/tmflow/runfile/record.py.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runner/job.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// Makes the runs of one process of a round.
class RunLines {
 public:
  RunLines(const Job& job, bool resumed);

  // A run of the point; `fields` are the results of the trial and its status.
  Json make(const Point& point, const std::string& started_at, Json::Object fields) const;

  // spec.seed + round - 1.
  std::uint32_t seed_of(const Point& point) const;

  // Call it once the data is loaded: later runs record which data it is.
  void note_dataset() { of_all_["dataset_sha256"] = study().dataset_sha256; }

 private:
  Json::Object of_all_;  // the fields that all runs of this process share
  std::map<std::string, int> ordinals_;
  const int round_;
};

}  // namespace tmflow::runner
