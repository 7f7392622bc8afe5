#include "runner/bundle.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "runner/bundle_names.hpp"
#include "runner/facts.hpp"
#include "runner/sha256.hpp"
#include "runner/sysfiles.hpp"
#include "runner/zip.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxLog = 64 << 10;  // only the end of a log is exported

// What the runs to export say about their origin.
struct Found {
  std::size_t runs = 0;
  std::vector<Member> files;
  std::set<std::string> scales;
  std::optional<Json> platform;
  Json environment;  // of the newest run
  std::string newest;
};

std::string content(const fs::path& path) {
  auto bytes = file_bytes(path);
  if (!bytes) throw std::runtime_error(path.string() + " cannot be read");
  return *std::move(bytes);
}

// The files below a folder, sorted by name, each with its path relative to the folder.
std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code error;  // ignored: the folder may be missing
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    if (entry.is_regular_file()) found.push_back(entry.path().lexically_relative(folder));
  }
  std::ranges::sort(found);
  return found;
}

void note(Found& found, const Json& run, const std::string& where) {
  const Json& platform = run.at("platform");
  if (found.platform && *found.platform != platform) {
    throw std::invalid_argument(where +
                                " is from another platform than the runs before it, but a bundle has runs of "
                                "one platform only: keep the run files of each machine in a separate "
                                "results folder");
  }
  ++found.runs;
  found.platform = platform;
  const std::string& started = run.at("started_at_utc").text();
  if (started >= found.newest) {
    found.newest = started;
    found.environment = run.at("environment");
  }
}

void note_all(Found& found, const std::string& lines, const fs::path& path) {
  if (!lines.empty() && lines.back() != '\n') {
    throw std::runtime_error("run file " + path.string() + " is truncated: its last line has no line end");
  }
  std::size_t number = 0;
  for (const std::string& line : split_lines(lines)) {
    const std::string where = "run file " + path.string() + ", line " + std::to_string(++number);
    try {
      note(found, parse(line), where);
    } catch (const JsonError& error) {
      throw std::runtime_error(where + ": " + error.what());
    }
  }
}

Found runs_of(const fs::path& runs) {
  Found found;
  for (const fs::path& file : files_below(runs)) {
    const std::string scale = file.begin()->string();
    const std::string member = "runs/" + file.lexically_relative(scale).generic_string();
    if (!is_run_member(member)) continue;
    std::string lines = content(runs / file);
    if (lines.empty()) continue;
    note_all(found, lines, runs / file);
    found.files.push_back({member, std::move(lines)});
    found.scales.insert(scale);
  }
  return found;
}

std::string platform_document(const Found& found) {
  return canonical(Json::Object{{"environment", found.environment},
                                {"facts", *found.platform},
                                {"name", display_name(*found.platform)},
                                {"sha256", platform_sha256(*found.platform)}});
}

void add_file(std::vector<Member>& members, const std::string& name, const fs::path& path,
              std::size_t at_most = std::string::npos) {
  if (!fs::is_regular_file(path)) return;
  const std::string whole = content(path);
  members.push_back({name, whole.substr(whole.size() - std::min(whole.size(), at_most))});
}

std::string manifest(const std::vector<Member>& members) {
  Json files = Json::Array();
  for (const auto& [name, bytes] : members) {
    files.append(Json::Object{{"bytes", bytes.size()}, {"path", name}, {"sha256", sha256_hex(bytes)}});
  }
  return canonical(Json::Object{{"files", files}, {"format", "tmflow-bundle"}, {"version", 1}});
}

}  // namespace

Exported export_bundle(const fs::path& results, const fs::path& out) {
  Found found = runs_of(results / "runs");
  if (!found.platform) {
    throw std::invalid_argument("nothing to export: no runs in " + (results / "runs").string());
  }
  std::vector<Member> members = std::move(found.files);
  members.push_back({"platform.json", platform_document(found)});
  if (found.scales.size() == 1) {
    add_file(members, "campaign.json", results / "runs" / *found.scales.begin() / "campaign.json");
  }
  add_file(members, "probe.json", results / "probe.json");
  for (const fs::path& log : files_below(results / "logs")) {
    const std::string member = "logs/" + log.generic_string();
    if (is_log_member(member)) add_file(members, member, results / "logs" / log, kMaxLog);
  }
  std::ranges::sort(members, {}, &Member::name);

  const std::string listed = manifest(members), identity = sha256_hex(listed);
  members.push_back({"manifest.json", listed});
  const Json& facts = *found.platform;
  const std::string model = text_of(facts, "cpu_model");
  const std::string name = bundle_file_name(model.empty() ? text_of(facts, "isa") : model,
                                            count_of(facts, "threads_logical"), identity);
  const fs::path path = fs::is_directory(out) ? out / name : out;
  write_zip(path, std::move(members));
  return {path, identity, found.runs, display_name(facts)};
}

}  // namespace tmflow::runner
