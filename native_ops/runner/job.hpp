// A round as a piece of work: everything that a fresh process needs to run it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runner/plan.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// Exit code of a round's process: what exceeded its time is in the journal, the rest is for a new process.
inline constexpr int kTimedOut = 75;

// The points of an experiment, to be run once each in an order shuffled by `order_seed`.
struct Job {
  Json campaign;  // uid and created_at_utc
  Experiment experiment;
  std::vector<Point> points;
  int number;
  std::filesystem::path run_file;
  std::optional<std::string> data;  // where MNIST is, if the user said it
  bool resumed = false;  // the round was interrupted before: what is left of it runs apart from the rest

  // Another one for every round of every campaign.
  std::uint32_t order_seed() const;

  // The points of each process of the round: one for each environment that points need, most often one in
  // all. Processes and their points are in the round's order, which is that of RoundJob in Python.
  std::vector<std::vector<Point>> processes() const;

  // As a process is told of it.
  std::string as_text() const;
  static Job from_text(const std::string& text);
};

}  // namespace tmflow::runner
