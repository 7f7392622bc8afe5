// tmflow-native: the study's native experiments on a machine that has neither Python nor TensorFlow.
#include <algorithm>
#include <exception>
#include <iostream>

#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/facts.hpp"

namespace tmflow::runner {
namespace {

constexpr const char* kHelp = R"(tmflow-native COMMAND [OPTIONS]

  doctor   what there is here, and what to do next
             --data DIR          where MNIST's four files are; else TMFLOW_DATA_DIR, else data/mnist here
  plan     the experiments, and how many trials they are here
             --scale full|quick  --processors N  --json
  run      measure what is missing of them; safe to interrupt and to repeat
             --scale full|quick  --experiment NAME[,NAME]  --rounds N  --data DIR
             --trial-timeout SECONDS  of a trial or its warm-up; that of the study if not given
             --results DIR       else TMFLOW_RESULTS_DIR, else results here
  probe    what this machine's transactions and memory really do; leave it alone meanwhile
             --seconds 60  --save FILE  --results DIR  --json
  export   the runs as one file, for `tmflow bundle import` or a pull request
             --results DIR  --out FILE|DIR
  bench    what an update costs under each strategy
             --elements N[,N]  --threads N[,N]  --strategy NAME[,NAME]  --rounds N  --json

  --version, --help
)";

struct Command {
  const char* name;
  int (*run)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"doctor", command_doctor}, {"plan", command_plan},   {"run", command_run},    {"export", command_export},
    {"bench", command_bench},   {"probe", command_probe}, {"round", command_round}};

int called(const Arguments& words) {
  const std::string name = words.empty() ? "--help" : words.front();
  if (name == "--help" || (words.size() > 1 && words[1] == "--help")) {
    std::cout << kHelp;
    return 0;
  }
  if (name == "--version") {
    std::cout << software_facts().at("tmflow").text() << '\n';
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run({words.begin() + 1, words.end()});
  }
  throw BadInput("unknown command '" + name + "'; `tmflow-native --help` lists those that there are.");
}

}  // namespace
}  // namespace tmflow::runner

int main(int count, char** words) {
  using namespace tmflow::runner;
  try {
    return called({words + 1, words + count});
  } catch (const BadInput& error) {
    std::cerr << "tmflow-native: " << error.what() << std::endl;
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "tmflow-native: " << error.what() << std::endl;
    return 1;
  }
}
