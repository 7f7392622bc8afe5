#include "runner/job.hpp"

#include <algorithm>

#include "runner/python_random.hpp"
#include "runner/sha256.hpp"

namespace tmflow::runner {

std::uint32_t Job::order_seed() const {
  const Json named = Json::Array{campaign.at("uid"), experiment.ref.at("definition_sha256"), number};
  return static_cast<std::uint32_t>(std::stoul(sha256_hex(canonical(named)).substr(0, 8), nullptr, 16));
}

std::vector<std::vector<Point>> Job::processes() const {
  PythonRandom order(order_seed());
  std::vector<Point> shuffled = points;
  order.shuffle(shuffled);
  std::vector<std::vector<Point>> processes;
  for (Point& point : shuffled) {
    const auto group = std::ranges::find_if(
        processes, [&](const auto& others) { return others.front().environment == point.environment; });
    if (group == processes.end()) {
      processes.push_back({std::move(point)});
    } else {
      group->push_back(std::move(point));
    }
  }
  order.shuffle(processes);
  return processes;
}

std::string Job::as_text() const {
  Json::Array chosen;
  for (const Point& point : points) chosen.push_back(point.sha256);
  return canonical(Json::Object{{"campaign", campaign},
                                {"data", data},
                                {"experiment", experiment.name},
                                {"number", number},
                                {"points", chosen},
                                {"resumed", resumed},
                                {"run_file", run_file.string()},
                                {"scale", experiment.scale},
                                {"trial_timeout_s", experiment.trial_timeout_s}});
}

Job Job::from_text(const std::string& text) {
  const Json document = parse(text);
  Job job{.campaign = document.at("campaign"),
          .experiment = study().at(document.at("scale").text(), {document.at("experiment").text()}).front(),
          .points = {},
          .number = static_cast<int>(document.at("number").integer()),
          .run_file = document.at("run_file").text(),
          .data = {},
          .resumed = document.at("resumed").boolean()};
  job.experiment.trial_timeout_s = document.at("trial_timeout_s").number();
  if (!document.at("data").is_null()) job.data = document.at("data").text();
  for (const Json& sha256 : document.at("points").array()) {
    job.points.push_back(*std::ranges::find(job.experiment.points, sha256.text(), &Point::sha256));
  }
  return job;
}

}  // namespace tmflow::runner
