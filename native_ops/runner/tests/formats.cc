// For tests/native/test_runner_formats.py: the program's documents.
#include "answers.hpp"
#include "runner/bundle.hpp"
#include "runner/facts.hpp"
#include "runner/machine.hpp"
#include "runner/sha256.hpp"
#include "runner/zip.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/format/json.hpp"

namespace tmflow::runner {
namespace {

Sample sample_of(const Json& given) {
  Sample made{.monotonic_s = given.at("monotonic_s").number(),
              .boot_s = given.at("boot_s").number(),
              .wall_s = given.at("wall_s").number(),
              .own_s = given.at("own_s").number()};
  if (const Json& load1 = given.at("load1"); !load1.is_null()) made.load1 = load1.number();
  if (const Json& stat = given.at("stat"); !stat.is_null()) made.times = CpuTimes::parse(stat.text(), 100);
  return made;
}

Json said(const Sample& taken) {
  return Json::Object{{"own_s", taken.own_s}, {"cpus", taken.times ? Json(taken.times->cpus) : Json()}};
}

Json zipped(const Json& question) {
  std::vector<Member> members;
  for (const auto& [name, bytes] : question.at("members").object()) members.push_back({name, bytes.text()});
  write_zip(question.at("path").text(), members);
  return nullptr;
}

Json exported(const Json& question) {
  const Exported made = export_bundle(question.at("results").text(), question.at("out").text());
  return Json::Object{{"identity", made.identity}, {"path", made.path.string()}, {"runs", made.runs}};
}

const Answers kAnswers = {
    // The input is JSON text inside a JSON string, so that Python's JSON writer does not change it.
    {"canonical", [](const Json& question) { return canonical(parse(question.at("text").text())); }},
    {"sha256", [](const Json& question) { return sha256_hex(question.at("text").text()); }},
    {"crc32", [](const Json& question) { return crc32(question.at("text").text()); }},
    {"zip", zipped},
    {"platform",
     [](const Json& question) {
       const Json facts = platform_facts(question.at("root").text(), question.at("machine").text());
       return Json(
           Json::Object{{"facts", facts}, {"sha256", platform_sha256(facts)}, {"name", display_name(facts)}});
     }},
    {"this_platform", [](const Json&) { return platform_facts(); }},
    {"environment",
     [](const Json& question) { return environment_facts(std::nullopt, question.at("root").text()); }},
    {"software", [](const Json&) { return software_facts(); }},
    {"between",
     [](const Json& question) {
       return between(sample_of(question.at("before")), sample_of(question.at("after")));
     }},
    {"sample", [](const Json& question) { return said(sample(question.at("stat").text())); }},
    {"export", exported},
    {"why_not",
     [](const Json& question) {
       const std::string parameters[] = {question.at("parameter").text()};
       return Json(why_not(question.at("strategy").text(), parameters));
     }},
};

}  // namespace
}  // namespace tmflow::runner

int main() { return tmflow::runner::answer_all(tmflow::runner::kAnswers); }
