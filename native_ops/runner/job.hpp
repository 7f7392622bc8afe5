// A round as a unit of work: everything that a fresh process needs to run it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// Exit code of a round's process: the trial that timed out is in the journal, the rest needs a new process.
inline constexpr int kTimedOut = 75;

// The points of an experiment, each to be run once, in an order shuffled by `order_seed`.
struct Job {
  Json campaign;  // uid and created_at_utc
  Experiment experiment;
  std::vector<Point> points;
  int number;
  std::filesystem::path run_file;
  std::optional<std::string> data;  // where MNIST is, if the user gave a path
  bool resumed = false;  // the round was interrupted before; its remaining points run in a separate process

  // Differs between all rounds of all campaigns.
  std::uint32_t order_seed() const;

  // The points of each process of the round: one process for each environment that the points need, usually
  // one in all. Processes and points are in the order of the round, as in Python's RoundJob.
  std::vector<std::vector<Point>> processes() const;

  // The form in which a process receives it.
  std::string as_text() const;
  static Job from_text(const std::string& text);
};

}  // namespace tmflow::runner
