// The journal of a round: it stores each trial as it finishes, so that an interrupted round keeps them.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "runner/plan.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {

// Its file is `<run file>.part`, beside the run file. An incomplete last line is a write in progress, or the
// trace of a kill during one: readers ignore it, and the next append overwrites it. The trial or warm-up in
// progress is recorded in `<run file>.now`. Both files are as in src/tmflow/runner/journal.py, so each
// program can continue a journal of the other.
class Journal {
 public:
  // Reads the files; changes nothing on disk.
  explicit Journal(std::filesystem::path run_file);

  const std::vector<Json>& runs() const noexcept { return runs_; }
  bool holds(const Point& point) const;
  // Whether it holds every point and nothing else.
  bool holds_exactly(const std::vector<Point>& points) const;
  // Drops the trials of other points.
  void keep_only(const std::vector<Point>& points);

  // {pid, warm_up, trials}: `trials` are the failed runs to record if the process dies there.
  void begin(const Json& under_way);
  std::optional<Json> under_way() const;
  void forget_under_way();

  // Adds a finished trial. On return it is on disk, and no trial is in progress. Throws BadInput if it cannot
  // be written; the journal then keeps what it held.
  void append(const Json& run);

  // Writes all trials to the run file, in their planned order, and removes the journal.
  void finish();

  // Renames the journal after the campaign of its runs, so that its round is measured again.
  void set_aside();

 private:
  const std::filesystem::path run_file_, path_, now_;
  std::vector<Json> runs_;
  std::size_t end_ = 0;  // of the last complete line
};

// The runs in the complete lines of a file; `end`, if given, receives the offset at which they end. Throws
// BadInput if the file cannot be read.
std::vector<Json> read_runs(const std::filesystem::path& path, std::size_t* end = nullptr);

// Renames a file of runs after the runs' campaign.
void set_aside(const std::filesystem::path& path, const Json& run);

// Whether a run is of the point.
bool is_of(const Json& run, const Point& point);

}  // namespace tmflow::runner
