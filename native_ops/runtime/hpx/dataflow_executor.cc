#include "dataflow_executor.hpp"

#include <algorithm>
#include <hpx/future.hpp>
#include <optional>
#include <utility>

#include "../kernel_step.hpp"
#include "hpx_runtime.hpp"
#include "tensorflow/core/graph/algorithm.h"
#include "tensorflow/core/platform/denormal.h"

namespace tmflow::runtime {
namespace {

// Whether a node has succeeded, and with it all that it depends on.
using Ended = hpx::shared_future<bool>;

// The values on the edges are TensorFlow's propagator's, which also counts the inputs of each node that are
// missing; only the futures decide when a node runs.
class DataflowStep final : public KernelStep<tensorflow::SimplePropagatorState, DataflowStep> {
  using Base = KernelStep<tensorflow::SimplePropagatorState, DataflowStep>;
  friend Base;

 public:
  static void start(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs,
                    const std::vector<Dependence>& dependences, Executor::DoneCallback done) {
    auto* const step = new DataflowStep(args, graph, costs, dependences.size());
    Counts::add(HpxDataflow::counts().steps, 1);
    if (!step->open(std::move(done)).ok()) return step->finish(true);
    // Not the step's executor: the step may end before this returns.
    hpx::post(task_executor(), [step, &dependences] { step->connect(dependences); });
  }

 private:
  struct Run : Workspace {
    std::optional<bool> has_succeeded;  // without a value while an asynchronous kernel works
  };

  DataflowStep(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs,
               std::size_t nodes)
      : Base(args, graph, costs), promises_(static_cast<std::size_t>(graph.graph_view().num_nodes())) {
    outstanding_.store(static_cast<int64_t>(nodes) + 1, std::memory_order_relaxed);  // and `connect`
  }

  // Makes the graph of futures. Nodes run as soon as what they depend on has ended, also while this works.
  void connect(const std::vector<Dependence>& dependences) {
    std::vector<Ended> ended(promises_.size());
    for (const auto& [item, on] : dependences) {
      std::vector<Ended> before;
      before.reserve(on.size());
      for (const int node : on) before.push_back(ended[index(node)]);
      ended[index(item->node_id)] =
          item->kernel_is_async ? later(*item, std::move(before)) : at_once(*item, std::move(before));
    }
    Counts::add(HpxDataflow::counts().tasks, static_cast<int64_t>(dependences.size()));
    count_down(false);
  }

  Ended at_once(const tensorflow::NodeItem& item, std::vector<Ended> before) {
    return hpx::dataflow(
        executor_,
        [this, &item](const std::vector<Ended>& ended) {
          Run run;
          run_node(item, ended, run);
          count_down(false);
          return *run.has_succeeded;
        },
        std::move(before));
  }

  // The future of an asynchronous kernel becomes ready when the kernel calls back.
  Ended later(const tensorflow::NodeItem& item, std::vector<Ended> before) {
    Ended ended = promises_[index(item.node_id)].emplace().get_future();
    hpx::dataflow(
        executor_,
        [this, &item](const std::vector<Ended>& inputs) {
          Run run;
          run_node(item, inputs, run);
          if (run.has_succeeded) keep_promise(item, *run.has_succeeded, false);
        },
        std::move(before));
    return ended;
  }

  // Nothing of the step may be used afterwards if an asynchronous kernel has been started: the step may have
  // ended with it.
  void run_node(const tensorflow::NodeItem& item, const std::vector<Ended>& ended, Run& run) {
    const tensorflow::port::ScopedFlushDenormal flush;  // as TensorFlow's threads do
    if (!std::ranges::all_of(ended, [](const Ended& input) { return input.get(); })) {
      run.has_succeeded = false;
      return;
    }
    Counts::add(HpxDataflow::counts().nodes, 1);
    fill(run.params);
    run.scheduled_ns = scheduled_now();
    process(Node(&item), run);
  }

  bool ended(const Node&, const absl::Status& status, Workspace& work) {
    if (!status.ok()) fail(status);
    work.ready.clear();
    static_cast<Run&>(work).has_succeeded = status.ok();
    return false;  // the futures count
  }

  void ended_later(const Node& node, const absl::Status& status, const Nodes&) {
    if (!status.ok()) fail(status);
    keep_promise(node.get_node_item(), status.ok(), true);
  }

  void keep_promise(const tensorflow::NodeItem& item, bool has_succeeded, bool by_runner) {
    promises_[index(item.node_id)]->set_value(has_succeeded);
    count_down(by_runner);
  }

  // The step ends with the last node, or with `connect` if that ends later.
  void count_down(bool by_runner) {
    if (outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) finish(by_runner);
  }

  static std::size_t index(int node) { return static_cast<std::size_t>(node); }

  const hpx::execution::parallel_executor executor_ = task_executor();
  // Of asynchronous kernels. Each is made before its kernel can run.
  std::vector<std::optional<hpx::promise<bool>>> promises_;
};

}  // namespace

absl::Status DataflowExecutor::initialise(const tensorflow::Graph& graph) {
  if (absl::Status status = graph_.Initialize(graph); !status.ok()) return status;
  costs_.emplace(graph_.graph_view());
  std::vector<tensorflow::Node*> order;
  tensorflow::GetReversePostOrder(graph, &order);
  for (const tensorflow::Node* node : order) {
    if (!node->IsOp()) continue;  // the source and the sink, which every graph has
    Dependence dependence{graph_.graph_view().node(node->id()), {}};
    for (const tensorflow::Edge* edge : node->in_edges()) {
      if (edge->src()->IsOp()) dependence.on.push_back(edge->src()->id());
    }
    dependences_.push_back(std::move(dependence));
  }
  Counts::add(HpxDataflow::counts().executors, 1);
  return absl::OkStatus();
}

void DataflowExecutor::RunAsyncInternal(const Args& args, DoneCallback done) {
  if (graph_.requires_control_flow_support()) {
    Step<tensorflow::PropagatorState, HpxDataflow>::start(args, graph_, *costs_, std::move(done));
  } else {
    DataflowStep::start(args, graph_, *costs_, dependences_, std::move(done));
  }
}

}  // namespace tmflow::runtime
