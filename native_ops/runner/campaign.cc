#include "runner/campaign.hpp"

#include "runner/facts.hpp"
#include "runner/files.hpp"
#include "runner/whole_file.hpp"
#include "tmflow/format/clock.hpp"

namespace tmflow::runner {

Campaign::Campaign(const std::filesystem::path& results, const std::string& scale)
    : path_(results / "runs" / scale / "campaign.json") {
  if (std::filesystem::exists(path_)) record_ = parse(read_file(path_));
  const std::string platform = platform_sha256(platform_facts());
  if (record_.is_null() || record_.at("finished").boolean() ||
      record_.at("platform_sha256").text() != platform) {
    const Json rounds = record_.is_null() ? Json(Json::Object()) : record_.at("rounds");
    record_ = Json::Object{{"created_at_utc", utc_now()},
                           {"finished", false},
                           {"invocations", Json::Array()},
                           {"platform_sha256", platform},
                           {"rounds", rounds},
                           {"scale", scale},
                           {"uid", new_uid()}};
  }
  record_["invocations"].append(Json::Object{{"ended_at_utc", nullptr}, {"started_at_utc", utc_now()}});
  save();
}

Json Campaign::ref() const {
  return Json::Object{{"created_at_utc", record_.at("created_at_utc")}, {"uid", record_.at("uid")}};
}

void Campaign::end(bool finished) {
  Json::Array invocations = record_.at("invocations").array();
  invocations.back()["ended_at_utc"] = utc_now();
  record_["invocations"] = invocations;
  record_["finished"] = finished;
  save();
}

void Campaign::save() const { write_whole(path_, canonical(record_) + "\n"); }

}  // namespace tmflow::runner
