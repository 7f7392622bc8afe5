#include "runner/plan.hpp"

#include <algorithm>
#include <iterator>

#include "runner/errors.hpp"

extern "C" const char tmflow_study_begin[], tmflow_study_end[];  // study_file.cc

namespace tmflow::runner {
namespace {

Point point_of(const Json& line, const Json::Array& spec_fields) {
  Point point{.spec = line.at("spec"),
              .sha256 = line.at("spec_sha256").text(),
              .environment = {},
              .parameters = {},
              .evidence = line.at("evidence").text(),
              .mechanism = line.at("mechanism"),
              .fused = line.at("fused"),
              .times_locks = line.at("times_locks").boolean(),
              .variant = static_cast<int>(line.at("variant").integer()),
              .from_processors = static_cast<int>(line.at("from_processors").integer())};
  for (const Json& field : spec_fields) point.spec[field.text()];
  for (const auto& [name, value] : line.at("environment").object()) point.environment[name] = value.text();
  for (const Json& parameter : line.at("parameters").array()) point.parameters.push_back(parameter.text());
  return point;
}

Experiment experiment_of(const Json& line) {
  const Json& ref = line.at("experiment");
  return {.ref = ref,
          .name = ref.at("name").text(),
          .scale = ref.at("scale").text(),
          .definition_id = line.at("definition_id").text(),
          .rounds = static_cast<int>(line.at("rounds").integer()),
          .trial_timeout_s = line.at("trial_timeout_s").number(),
          .points = {}};
}

Study read(std::string_view text) {
  Study study;
  Json::Array spec_fields;
  for (std::size_t end = 0; !text.empty(); text.remove_prefix(end + 1)) {
    end = text.find('\n');
    const Json line = parse(text.substr(0, end));
    const std::string& kind = line.at("kind").text();
    if (kind == "point") {
      study.experiments.back().points.push_back(point_of(line, spec_fields));
    } else if (kind == "experiment") {
      study.experiments.push_back(experiment_of(line));
    } else if (kind == "backend") {
      study.backends[line.at("profile").text()] = line.at("backend");
    } else {
      study.files = line.at("dataset").at("files");
      study.dataset_sha256 = line.at("dataset").at("sha256").text();
      spec_fields = line.at("spec_fields").array();
    }
  }
  return study;
}

}  // namespace

std::vector<Point> Experiment::points_for(int processors) const {
  std::vector<Point> kept;
  const auto runs = [&](const Point& point) { return point.from_processors <= processors; };
  std::ranges::copy_if(points, std::back_inserter(kept), runs);
  return kept;
}

std::vector<Experiment> Study::at(std::string_view scale, const std::vector<std::string>& names) const {
  std::vector<Experiment> found;
  std::string valid;
  for (const Experiment& one : experiments) {
    if (one.scale != scale) continue;
    valid += (valid.empty() ? "" : ", ") + one.name;
    if (names.empty() || std::ranges::count(names, one.name) > 0) found.push_back(one);
  }
  for (const std::string& name : names) {
    if (std::ranges::none_of(found, [&](const Experiment& one) { return one.name == name; })) {
      throw BadInput("experiment is '" + name + "', but should be an experiment of scale " +
                     std::string(scale) + " that needs no TensorFlow: " + valid + ".");
    }
  }
  return found;
}

const Study& study() {
  static const Study embedded = read({tmflow_study_begin, tmflow_study_end});
  return embedded;
}

}  // namespace tmflow::runner
