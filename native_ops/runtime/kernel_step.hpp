// Running the kernels of a step, one node at a time, whatever decides when each node runs.
#pragma once

#include <chrono>
#include <memory>
#include <utility>

#include "kernel_costs.hpp"
#include "step_base.hpp"
#include "tensorflow/core/profiler/lib/traceme.h"

namespace tmflow::runtime {

// `Propagator` is TensorFlow's: it keeps the values on the edges of the graph. `Steps` is the class that is
// derived from this one, and has two functions:
//
//   bool ended(const Node&, const absl::Status&, Workspace&)      after a node, on the thread of its task;
//                                                                 returns whether it was the last of the step
//   void ended_later(const Node&, const absl::Status&, Nodes)     after an asynchronous kernel, on whatever
//                                                                 thread calls back, at any depth of its
//                                                                 stack
//
// Both have the nodes that the propagator found to be ready.
template <class Propagator, class Steps>
class KernelStep : public StepBase {
 protected:
  using Node = typename Propagator::TaggedNode;
  using Nodes = typename Propagator::TaggedNodeSeq;

  // What a task needs for each node, made once for all of them.
  struct Workspace {
    OpKernelContext::Params params;
    Inputs inputs;
    EntryVector outputs{1};
    Nodes ready;
    int64_t scheduled_ns = 0;
  };

  KernelStep(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs)
      : StepBase(args, graph), costs_(costs), propagator_(graph, args.step_id, false) {}

  // Runs a node. Returns whether it was the last of the step.
  bool process(const Node& node, Workspace& work) {
    const NodeItem& item = node.get_node_item();
    Entry* const first_input = propagator_.GetInputTensors(node);
    if (static_cast<int>(work.outputs.size()) < item.num_outputs) work.outputs.resize(item.num_outputs);

    NodeExecStatsInterface* stats = nullptr;
    work.params.track_allocations = false;
    if (stats_collector_ != nullptr && !node.get_is_dead()) {
      stats = stats_collector_->CreateNodeExecStats(&item.kernel->def());
      if (stats != nullptr) {  // null for nodes that it does not record
        work.params.track_allocations = stats->TrackAllocations();
        stats->SetScheduled(work.scheduled_ns);
        stats->RecordExecutorStarted();
      }
    }

    absl::Status status;
    if (node.get_is_dead() && !item.is_transfer_node) {
      // Its outputs stay without values, and are propagated as dead.
    } else if (item.is_noop) {
      if (stats != nullptr) {
        stats->RecordComputeStarted();
        stats->RecordComputeEnded();
      }
    } else if (item.const_tensor != nullptr && !work.params.track_allocations) {
      if (stats != nullptr) {
        stats->RecordComputeStarted();
        stats->RecordComputeEnded();
      }
      Entry& output = work.outputs[0];
      output.state = Entry::State::HAS_CONST_TENSOR;
      output.const_tensor = item.const_tensor;
      output.alloc_attr = item.output_attrs()[0];
    } else if (status = prepare(item, first_input, work.inputs); status.ok()) {
      describe(node, item, work);
      if (item.kernel_is_async) {
        start_async(node, item, first_input, work, stats);
        return false;
      }
      status = compute(item, work, stats);
    }

    clear(first_input, item.num_inputs);
    if (status.ok()) propagator_.PropagateOutputs(node, &work.outputs, &work.ready);
    clear(work.outputs.data(), item.num_outputs);
    record_end(stats);
    return static_cast<Steps*>(this)->ended(node, status, work);
  }

 private:
  // An asynchronous kernel at work. It keeps copies, because the task that has started it goes on with other
  // nodes.
  struct Async {
    Async(KernelStep* of, const Node& started, Entry* inputs_in_graph, const Inputs& of_node,
          const OpKernelContext::Params& of_task, NodeExecStatsInterface* of_stats)
        : step(of),
          node(started),
          first_input(inputs_in_graph),
          inputs(of_node),
          params(of_task),
          stats(of_stats),
          context(with_copies(), started.get_node_item().num_outputs) {}

    OpKernelContext::Params* with_copies() {
      params.eigen_gpu_device = nullptr;  // owned by the parameters of the task
      params.inputs = inputs.values;
      params.input_alloc_attrs = inputs.attributes;
      return &params;
    }

    KernelStep* const step;
    const Node node;
    Entry* const first_input;
    const Inputs inputs;
    OpKernelContext::Params params;
    NodeExecStatsInterface* const stats;
    OpKernelContext context;
  };

  // The parameters of this node's kernel.
  void describe(const Node& node, const NodeItem& item, Workspace& work) {
    OpKernelContext::Params& params = work.params;
    params.op_kernel = item.kernel;
    params.frame_iter = propagator_.GetFrameAndIter(node);
    params.is_input_dead = work.inputs.is_dead;
    params.output_attr_array = item.output_attrs();
    params.forward_from_array = item.forward_from();
    params.outputs_required_array = item.outputs_required.get();
    params.inputs = work.inputs.values;
    params.input_alloc_attrs = work.inputs.attributes;
  }

  absl::Status compute(const NodeItem& item, Workspace& work, NodeExecStatsInterface* stats) {
    OpKernelContext context(&work.params, item.num_outputs);
    const bool is_expensive = costs_.is_expensive(item.node_id);
    tensorflow::profiler::TraceMe trace(
        [&] { return item.kernel->TraceString(context, tensorflow::profiler::TfOpDetailsEnabled()); },
        tensorflow::profiler::GetTFTraceMeLevel(is_expensive));
    if (stats != nullptr) stats->RecordComputeStarted();
    if (costs_.is_timed(item.node_id)) {
      const auto began = std::chrono::steady_clock::now();
      device_->Compute(item.kernel, &context);
      costs_.record(item.node_id, std::chrono::steady_clock::now() - began);
    } else {
      device_->Compute(item.kernel, &context);
    }
    if (stats != nullptr) stats->RecordComputeEnded();
    absl::Status status = take_outputs(item, context, work.outputs.data(), stats);
    if (stats != nullptr) stats->SetMemory(&context);
    return status;
  }

  void start_async(const Node& node, const NodeItem& item, Entry* first_input, Workspace& work,
                   NodeExecStatsInterface* stats) {
    auto* const async = new Async(this, node, first_input, work.inputs, work.params, stats);
    if (stats != nullptr) stats->RecordComputeStarted();
    device_->ComputeAsync(item.kernel->AsAsync(), &async->context,
                          [async] { async->step->end_async(async); });
  }

  void end_async(Async* finished) {
    std::unique_ptr<Async> async(finished);
    const Node node = async->node;
    const NodeItem& item = node.get_node_item();
    NodeExecStatsInterface* const stats = async->stats;
    if (stats != nullptr) stats->RecordComputeEnded();
    EntryVector outputs(item.num_outputs);
    const absl::Status status = take_outputs(item, async->context, outputs.data(), stats);
    if (stats != nullptr) stats->SetMemory(&async->context);
    clear(async->first_input, item.num_inputs);
    Nodes ready;
    if (status.ok()) propagator_.PropagateOutputs(node, &outputs, &ready);
    outputs.clear();
    async.reset();  // what it refers to may be gone when the step has ended
    record_end(stats);
    static_cast<Steps*>(this)->ended_later(node, status, std::move(ready));
  }

  void record_end(NodeExecStatsInterface* stats) {
    if (stats == nullptr) return;
    stats->RecordExecutorEnded();
    stats->Done(device_->name());
  }

  static int64_t now_ns() { return static_cast<int64_t>(tensorflow::EnvTime::NowNanos()); }

 protected:
  int64_t scheduled_now() const { return stats_collector_ != nullptr ? now_ns() : 0; }

  KernelCosts& costs_;
  Propagator propagator_;
};

}  // namespace tmflow::runtime
