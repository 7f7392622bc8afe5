// `tmflow-native doctor`: what is installed here, and what to do next.
#include <errno.h>

#include <cstdio>
#include <iostream>

#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/facts.hpp"
#include "runner/mnist.hpp"
#include "runner/options.hpp"
#include "runner/possible.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow::runner {
namespace {

constexpr int kTrials = 100;

std::string transactions() {
  const TmProbe probe = probe_tm(kTrials);
  if (!probe.reported) return "not reported by the processor, so not tried";
  return std::to_string(probe.committed) + " of " + std::to_string(probe.tried) +
         " trial transactions committed";
}

void list_strategies() {
  for (const Listed& listed : listed_strategies()) {
    const std::string name(listed.info.name);
    std::printf("  %-16s %s\n", name.c_str(), never(name).value_or("runs here").c_str());
  }
}

std::string what_to_do(const std::optional<std::string>& data) {
  const std::string program = program_invocation_name, given = data ? " --data " + *data : "";
  return "Measure with: " + program + " probe && " + program + " run" + given + " && " + program + " export";
}

}  // namespace

int command_doctor(const Arguments& arguments) {
  const Options options(arguments, {"data"}, {});
  std::cout << "machine       " << display_name(platform_facts()) << "\n"
            << "processors    " << cpus_allowed() << " hardware threads that this process may use\n"
            << "transactions  " << transactions() << "\n";
  std::string wrong;
  try {
    const std::filesystem::path folder = find_mnist(study().files, options.value("data"));
    load_mnist(folder, study().files);
    std::cout << "MNIST         " << folder.string() << ", all files verified\n";
  } catch (const BadInput& error) {
    wrong = error.what();
    std::cout << "MNIST         missing or wrong: see below\n";
  }
  std::cout << "strategies\n" << std::flush;
  list_strategies();
  std::cout << (wrong.empty() ? what_to_do(options.value("data")) : wrong) << "\n";
  return wrong.empty() ? 0 : 1;
}

}  // namespace tmflow::runner
