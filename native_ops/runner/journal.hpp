// The journal of a round: trials as they finish, so that an interrupted round keeps them.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "runner/plan.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// It stands beside the run file under the name `<run file>.part`. A torn last line is a write in progress, or
// the trace of a kill during one: readers leave it out, and the next append overwrites it. What is under way,
// a trial or the warm-up of some, stands in `<run file>.now`. Both are as src/tmflow/runner/journal.py has
// them, and either program goes on with what the other one left.
class Journal {
 public:
  // Reading changes nothing on disk.
  explicit Journal(std::filesystem::path run_file);

  const std::vector<Json>& runs() const noexcept { return runs_; }
  bool holds(const Point& point) const;
  // Whether it holds every point, and nothing else.
  bool holds_exactly(const std::vector<Point>& points) const;
  // Forgets trials of other points.
  void keep_only(const std::vector<Point>& points);

  // {pid, warm_up, trials}: `trials` as the failed runs that they are if the process dies there.
  void begin(const Json& under_way);
  std::optional<Json> under_way() const;
  void forget_under_way();

  // Adds a finished trial; it is on disk when this returns, and nothing is under way. Throws BadInput where
  // it cannot be written; what the journal held before, it still holds.
  void append(const Json& run);

  // Makes the run file of all trials, in the order in which they were planned; the journal goes.
  void finish();

  // Renames it after the campaign of its runs: its round is measured again.
  void set_aside();

 private:
  const std::filesystem::path run_file_, path_, now_;
  std::vector<Json> runs_;
  std::size_t end_ = 0;  // of the last whole line
};

// The runs of a file, its whole lines; `end`, if asked for, is where they end. Throws BadInput where it
// cannot be read.
std::vector<Json> read_runs(const std::filesystem::path& path, std::size_t* end = nullptr);

// Renames a file of runs after their campaign.
void set_aside(const std::filesystem::path& path, const Json& run);

// Whether a run is of the point.
bool is_of(const Json& run, const Point& point);

}  // namespace tmflow::runner
