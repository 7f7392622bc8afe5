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

  doctor   show what this machine can run, and what to do next
             --data DIR          folder of MNIST's four files (default: TMFLOW_DATA_DIR, else ./data/mnist)
  plan     list the experiments and their number of trials on this machine
             --scale full|quick  --processors N  --json
  run      measure what is missing; can be interrupted and repeated at any time
             --scale full|quick  --experiment NAME[,NAME]  --rounds N  --data DIR
             --trial-timeout SECONDS  limit of a trial or its warm-up (default: the study's)
             --results DIR       (default: TMFLOW_RESULTS_DIR, else ./results)
  probe    measure this machine's transactions and memory; do not use the machine meanwhile
             --seconds 60  --save FILE  --results DIR  --json
  export   write the runs to one file, for `tmflow bundle import` or a pull request
             --results DIR  --out FILE|DIR
  bench    measure the cost of an update with each strategy
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
  throw BadInput("unknown command '" + name + "'; `tmflow-native --help` lists the commands.");
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
