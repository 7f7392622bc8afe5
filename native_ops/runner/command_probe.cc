// `tmflow-native probe`: measures what this machine's transactions and memory do.
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/facts.hpp"
#include "runner/machine_lock.hpp"
#include "runner/options.hpp"
#include "runner/whole_file.hpp"
#include "tmflow/probe/probe.hpp"

namespace tmflow::runner {
namespace {

Json probed(double seconds) {
  const std::string version = software_facts().at("tmflow").text();
  const HeldFile machine = machine_to_itself();
  try {
    Json found = parse(probe::probe_json({.seconds = seconds, .emulate = {}, .version = version}));
    found["platform_sha256"] = platform_sha256(platform_facts());
    return found;
  } catch (const std::invalid_argument& error) {
    throw BadInput(std::string(error.what()) + ".");
  }
}

}  // namespace

int command_probe(const Arguments& arguments) {
  const Options options(arguments, {"seconds", "save", "results"}, {"json"});
  const Json found = probed(options.seconds("seconds", 60));
  const std::string file = options.value("save").value_or(results_folder(options) + "/probe.json");
  write_whole(file, canonical(found) + "\n");
  if (options.has("json")) {
    std::cout << canonical(found) << '\n';
  } else {
    for (const Json& one : found.at("limits").at("update_ns").array()) {
      std::printf("%10lld elements: an update by a single thread takes %.1f ns\n",
                  static_cast<long long>(one.at("elements").integer()), one.at("ns").number());
    }
    std::cout << "The results are in " << file << "; `export` includes them.\n";
  }
  return 0;
}

}  // namespace tmflow::runner
