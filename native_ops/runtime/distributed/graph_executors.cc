#include "graph_executors.hpp"

#include <memory>
#include <utility>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/executor_factory.h"
#include "tensorflow/core/common_runtime/local_executor_params.h"
#include "tensorflow/core/framework/op_segment.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tmflow::runtime {
namespace {

using tensorflow::GraphMgr;
using tensorflow::OpKernel;
using tensorflow::OpSegment;

// `GraphMgr` has no way to choose an executor, so its table of graphs is reached by a rule of C++: the
// template arguments of an explicit instantiation may name private members ([temp.spec]). The library is for
// exactly one version of TensorFlow, so the members are those of its header.
auto table_of(GraphMgr& graphs);
auto mutex_of(GraphMgr& graphs);

template <auto Table, auto Mutex>
struct Members {
  friend auto table_of(GraphMgr& graphs) { return &(graphs.*Table); }
  friend auto mutex_of(GraphMgr& graphs) { return &(graphs.*Mutex); }
};

template struct Members<&GraphMgr::table_, &GraphMgr::mu_>;

// The parameters that `GraphMgr` gives to the executor of one device's part of a graph: kernels with a state
// belong to the device's segment, under the session, and all others to the executor.
tensorflow::LocalExecutorParams parameters(const std::string& session, tensorflow::Device* device,
                                           tensorflow::FunctionLibraryRuntime* library) {
  tensorflow::LocalExecutorParams parameters;
  parameters.device = device;
  parameters.function_library = library;
  parameters.create_kernel = [session, library, segment = device->op_segment()](
                                 const std::shared_ptr<const tensorflow::NodeProperties>& node,
                                 OpKernel** kernel) {
    if (!OpSegment::ShouldOwnKernel(library, node->node_def.op())) return library->CreateKernel(node, kernel);
    return segment->FindOrCreate(
        session, node->node_def.name(), kernel,
        [library, &node](OpKernel** created) { return library->CreateKernel(node, created); });
  };
  parameters.delete_kernel = [library](OpKernel* kernel) {
    if (kernel != nullptr && !OpSegment::ShouldOwnKernel(library, kernel->type_string())) delete kernel;
  };
  return parameters;
}

}  // namespace

absl::Status use_executor(const std::string& type, const std::string& session, const std::string& graph,
                          GraphMgr& graphs) {
  auto* const table = table_of(graphs);
  tensorflow::core::RefCountPtr<
      std::remove_pointer_t<typename std::remove_pointer_t<decltype(table)>::mapped_type>>
      item;
  {
    const tensorflow::mutex_lock lock(*mutex_of(graphs));
    const auto at = table->find(graph);
    if (at == table->end()) return tensorflow::errors::Aborted("the session was closed");
    at->second->Ref();  // the session may be closed while this works
    item.reset(at->second);
  }
  for (auto& unit : item->units) {
    std::unique_ptr<tensorflow::Executor> executor;
    const auto of_device = parameters(session, unit.device, item->proc_flr->GetFLR(unit.device->name()));
    if (absl::Status status = tensorflow::NewExecutor(type, of_device, *unit.graph, &executor);
        !status.ok()) {
      return status;
    }
    delete std::exchange(unit.root, executor.release());  // the item owns it
  }
  return absl::OkStatus();
}

}  // namespace tmflow::runtime
