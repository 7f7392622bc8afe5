// `tmflow-native export`: writes the runs as one portable file.
#include <iostream>
#include <stdexcept>

#include "runner/bundle.hpp"
#include "runner/commands.hpp"
#include "runner/errors.hpp"
#include "runner/options.hpp"

namespace tmflow::runner {

int command_export(const Arguments& arguments) {
  const Options options(arguments, {"results", "out"}, {});
  try {
    const Exported exported = export_bundle(results_folder(options), options.value("out").value_or("."));
    std::cout << exported.path.string() << ": " << exported.runs << " runs of " << exported.platform
              << ", bundle " << exported.identity << "\n";
  } catch (const std::invalid_argument& error) {
    throw BadInput(std::string(error.what()) + ".");
  }
  return 0;
}

}  // namespace tmflow::runner
