// For tests/native/test_runner_draws.py: the random numbers of a trial, and how its aborts are counted.
#include "answers.hpp"
#include "runner/families.hpp"
#include "runner/initial_values.hpp"
#include "runner/mnist.hpp"
#include "runner/numpy_random.hpp"
#include "runner/python_random.hpp"
#include "runner/turns.hpp"
#include "tmflow/train/models.hpp"

namespace tmflow::runner {
namespace {

std::uint32_t word(const Json& question, const char* name) {
  return static_cast<std::uint32_t>(question.at(name).integer());
}

Json listed(const auto& values) {
  Json::Array all;
  for (const auto& value : values) all.emplace_back(value);
  return all;
}

Json shuffled(const Json& question) {
  Json::Array items = question.at("items").array();
  PythonRandom random(word(question, "seed"));
  random.shuffle(items);
  return items;
}

Json benchmark_turns(const Json& question) {
  std::vector<Json::Array> cells;
  for (const Json& cell : question.at("cells").array()) cells.push_back(cell.array());
  return turns(cells, static_cast<int>(question.at("seed").integer()),
               static_cast<int>(question.at("number").integer()));
}

Json initial(const Json& question) {
  const auto model = train::make_model<float>(
      "mnist_mlp",
      {.matrix = word(question, "matrix"), .hidden = word(question, "hidden"), .activation = "relu"});
  Json::Array all;
  for (const auto& values : initial_values("mnist_mlp", model->variables(), word(question, "seed"))) {
    all.push_back(listed(std::vector<double>(values.begin(), values.end())));
  }
  return all;
}

Json families(const Json& question) {
  Json::Array all;
  for (const Json& status : question.at("statuses").array()) {
    const std::uint64_t raw = std::stoull(status.text(), nullptr, 16);
    all.push_back(Json::Array{raw_code(raw), family(question.at("mechanism").text(), raw)});
  }
  return all;
}

const Answers kAnswers = {
    {"permutation",
     [](const Json& question) {
       return listed(
           NumpyRandom(word(question, "seed"), word(question, "stream")).permutation(word(question, "n")));
     }},
    {"starts",
     [](const Json& question) {
       return listed(batch_starts(word(question, "seed"), word(question, "batch"), word(question, "steps")));
     }},
    {"shuffled", shuffled},
    {"turns", benchmark_turns},
    {"initial", initial},
    {"families", families},
};

}  // namespace
}  // namespace tmflow::runner

int main() { return tmflow::runner::answer_all(tmflow::runner::kAnswers); }
