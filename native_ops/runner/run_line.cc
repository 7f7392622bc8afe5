#include "runner/run_line.hpp"

#include "runner/facts.hpp"
#include "tmflow/format/clock.hpp"
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow::runner {
namespace {

constexpr int kTrialTransactions = 100;

// The fields that only a completed trial has.
constexpr const char* kResults[] = {"setup_s", "loop_s",         "evaluation_s",
                                    "total_s", "final_accuracy", "machine"};
constexpr const char* kLists[] = {"aborts", "counters", "curve",   "failed_publications", "fused",
                                  "lost",   "reads",    "retries", "staleness",           "taken_blocks"};

}  // namespace

RunLines::RunLines(const Job& job, bool resumed)
    : of_all_{{"schema_version", 1},
              {"campaign", job.campaign},
              {"experiment", job.experiment.ref},
              {"round", job.number},
              {"order_seed", job.order_seed()},
              {"resumed", resumed},
              {"time_domain", "wall"},
              {"dataset_sha256", nullptr},
              {"reason", nullptr},
              {"platform", platform_facts()},
              {"environment", environment_facts(probe_tm(kTrialTransactions).committed > 0)},
              {"software", software_facts()}},
      round_(job.number) {
  for (const char* name : kResults) of_all_[name] = nullptr;
  for (const char* name : kLists) of_all_[name] = Json::Array();
  for (const auto& process : job.processes()) {
    for (const Point& point : process) {
      const int ordinal = static_cast<int>(ordinals_.size());
      ordinals_[point.sha256] = ordinal;
    }
  }
}

Json RunLines::make(const Point& point, const std::string& started_at, Json::Object fields) const {
  const auto& backends = study().backends;
  const Json& profile = point.spec.at("profile");
  fields.insert({{"uid", new_uid()},
                 {"ordinal", ordinals_.at(point.sha256)},
                 {"trial_seed", seed_of(point)},
                 {"started_at_utc", started_at},
                 {"spec", point.spec},
                 {"evidence", point.evidence},
                 {"backend", profile.is_null() ? Json() : backends.at(profile.text())}});
  fields.insert(of_all_.begin(), of_all_.end());
  return fields;
}

std::uint32_t RunLines::seed_of(const Point& point) const {
  return static_cast<std::uint32_t>(point.whole("seed") + round_ - 1);
}

}  // namespace tmflow::runner
