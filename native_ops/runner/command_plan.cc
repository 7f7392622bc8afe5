// `tmflow-native plan`: lists the experiments, and how many trials each has on this machine.
#include <cstdio>
#include <iostream>

#include "runner/commands.hpp"
#include "runner/options.hpp"
#include "runner/plan.hpp"
#include "runner/possible.hpp"

namespace tmflow::runner {

int command_plan(const Arguments& arguments) {
  const Options options(arguments, {"scale", "processors"}, {"json"});
  const std::string scale = options.one_of("scale", {"full", "quick"});
  const int processors = options.number("processors", cpus_allowed(), 1, 1'000'000);
  Json rows = Json::Array();
  for (const Experiment& one : study().at(scale, {})) {
    const std::vector<Point> points = one.points_for(processors);
    Json::Array specs;
    for (const Point& point : points) specs.push_back(point.sha256);
    rows.append(Json::Object{{"definition_sha256", one.ref.at("definition_sha256")},
                             {"id", one.name},
                             {"rounds", one.rounds},
                             {"specs", specs},
                             {"trials", points.size() * static_cast<std::size_t>(one.rounds)}});
  }
  if (options.has("json")) {
    std::cout << canonical(rows) << '\n';
    return 0;
  }
  std::printf("%-24s%10s%10s\n", "experiment", "rounds", "trials");
  std::int64_t trials = 0;
  for (const Json& row : rows.array()) {
    std::printf("%-24s%10lld%10lld\n", row.at("id").text().c_str(),
                static_cast<long long>(row.at("rounds").integer()),
                static_cast<long long>(row.at("trials").integer()));
    trials += row.at("trials").integer();
  }
  std::printf("%-34s%10lld  on %d hardware threads\n", "in all", static_cast<long long>(trials), processors);
  return 0;
}

}  // namespace tmflow::runner
