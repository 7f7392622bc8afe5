#include "runner/campaign.hpp"

#include "runner/facts.hpp"
#include "runner/files.hpp"
#include "runner/whole_file.hpp"
#include "tmflow/format/clock.hpp"

namespace tmflow::runner {

Campaign::Campaign(const std::filesystem::path& results, const std::string& scale)
    : path_(results / "runs" / scale / "campaign.json") {
  if (std::filesystem::exists(path_)) its_ = parse(read_file(path_));
  const std::string platform = platform_sha256(platform_facts());
  if (its_.is_null() || its_.at("finished").boolean() || its_.at("platform_sha256").text() != platform) {
    const Json rounds = its_.is_null() ? Json(Json::Object()) : its_.at("rounds");
    its_ = Json::Object{{"created_at_utc", utc_now()},
                        {"finished", false},
                        {"invocations", Json::Array()},
                        {"platform_sha256", platform},
                        {"rounds", rounds},
                        {"scale", scale},
                        {"uid", new_uid()}};
  }
  its_["invocations"].append(Json::Object{{"ended_at_utc", nullptr}, {"started_at_utc", utc_now()}});
  save();
}

Json Campaign::ref() const {
  return Json::Object{{"created_at_utc", its_.at("created_at_utc")}, {"uid", its_.at("uid")}};
}

void Campaign::end(bool finished) {
  Json::Array invocations = its_.at("invocations").array();
  invocations.back()["ended_at_utc"] = utc_now();
  its_["invocations"] = invocations;
  its_["finished"] = finished;
  save();
}

void Campaign::save() const { write_whole(path_, canonical(its_) + "\n"); }

}  // namespace tmflow::runner
