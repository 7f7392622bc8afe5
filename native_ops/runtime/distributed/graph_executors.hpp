// The executor of the graphs that a session registers on a task.
#pragma once

#include <string>

#include "tensorflow/core/distributed_runtime/graph_mgr.h"

namespace tmflow::runtime {

// Runs a registered graph under the executor of this type, one of TensorFlow's registry, in place of the one
// that `GraphMgr` creates whatever the session's configuration says. Call it before anybody knows `graph`,
// the handle of the graph, so that no step is running; `session` is the handle of its session. After an error
// the graph still has executors that work.
absl::Status use_executor(const std::string& type, const std::string& session, const std::string& graph,
                          tensorflow::GraphMgr& graphs);

}  // namespace tmflow::runtime
