#include "runner/journal.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "runner/errors.hpp"
#include "runner/files.hpp"
#include "runner/whole_file.hpp"

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

}  // namespace

bool is_of(const Json& run, const Point& point) { return run.at("spec") == point.spec; }

std::vector<Json> read_runs(const fs::path& path, std::size_t* end) {
  const std::string text = read_file(path);
  std::vector<Json> runs;
  std::size_t first = 0;
  for (std::size_t last; (last = text.find('\n', first)) != text.npos; first = last + 1) {
    try {
      runs.push_back(parse(std::string_view(text).substr(first, last - first)));
    } catch (const JsonError& error) {
      throw BadInput(path.string() + ", line " + std::to_string(runs.size() + 1) + ": " + error.what() + ".");
    }
  }
  if (end != nullptr) *end = first;
  return runs;
}

void set_aside(const fs::path& path, const Json& run) {
  const std::string name = path.filename().string(), uid = run.at("campaign").at("uid").text();
  fs::rename(path, path.parent_path() / (name.substr(0, name.find('.')) + "." + uid.substr(0, 8) + ".jsonl"));
}

Journal::Journal(fs::path run_file)
    : run_file_(std::move(run_file)), path_(run_file_.string() + ".part"), now_(run_file_.string() + ".now") {
  if (fs::exists(path_)) runs_ = read_runs(path_, &end_);
}

bool Journal::holds(const Point& point) const {
  return std::ranges::any_of(runs_, [&](const Json& run) { return is_of(run, point); });
}

bool Journal::holds_exactly(const std::vector<Point>& points) const {
  return runs_.size() == points.size() &&
         std::ranges::all_of(points, [&](const Point& point) { return holds(point); });
}

void Journal::keep_only(const std::vector<Point>& points) {
  std::erase_if(runs_, [&](const Json& run) {
    return std::ranges::none_of(points, [&](const Point& point) { return is_of(run, point); });
  });
}

void Journal::begin(const Json& under_way) { write_whole(now_, canonical(under_way) + "\n"); }

std::optional<Json> Journal::under_way() const {
  if (!fs::exists(now_)) return std::nullopt;
  return parse(read_file(now_));
}

void Journal::forget_under_way() { fs::remove(now_); }

void Journal::append(const Json& run) {
  const std::string line = canonical(run) + "\n";
  append_at(path_, end_, line);
  end_ += line.size();
  runs_.push_back(run);
  forget_under_way();
}

void Journal::finish() {
  std::map<std::int64_t, std::string> by_ordinal;
  for (const Json& run : runs_) by_ordinal[run.at("ordinal").integer()] = canonical(run) + "\n";
  std::string lines;
  for (const auto& [ordinal, line] : by_ordinal) lines += line;
  write_whole(run_file_, lines);
  fs::remove(path_);
  forget_under_way();
}

void Journal::set_aside() {
  runner::set_aside(path_, runs_.front());
  runs_.clear();
  end_ = 0;
}

}  // namespace tmflow::runner
