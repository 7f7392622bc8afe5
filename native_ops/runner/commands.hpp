// The commands of tmflow-native. Each returns the exit code, and throws BadInput for invalid input.
#pragma once

#include <string>
#include <vector>

namespace tmflow::runner {

class Options;

using Arguments = std::vector<std::string>;

int command_run(const Arguments& arguments);
int command_plan(const Arguments& arguments);
int command_export(const Arguments& arguments);
int command_doctor(const Arguments& arguments);
int command_probe(const Arguments& arguments);
int command_bench(const Arguments& arguments);
// `run` starts it in a separate process. Arguments: the JOB as text, and the number of the process in its
// round.
int command_round(const Arguments& arguments);

// The folder of everything that a study produces: --results, else $TMFLOW_RESULTS_DIR, else ./results.
std::string results_folder(const Options& options);

}  // namespace tmflow::runner
