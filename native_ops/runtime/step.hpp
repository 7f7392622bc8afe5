// One run of a graph: nodes whose inputs have arrived are run, and what they produce makes others ready.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "counts.hpp"
#include "kernel_costs.hpp"
#include "step_base.hpp"
#include "task.hpp"
#include "tensorflow/core/common_runtime/propagator_state.h"
#include "tensorflow/core/common_runtime/simple_propagator_state.h"
#include "tensorflow/core/profiler/lib/traceme.h"

namespace tmflow::runtime {

// `Propagator` is TensorFlow's: PropagatorState for graphs with the control flow of TensorFlow 1 (frames,
// iterations, dead values), else SimplePropagatorState, which is faster. `Scheduler` decides which threads
// run tasks; schedulers/ has one file for each.
//
// A task runs a queue of nodes until it is empty. Cheap nodes that become ready join the queue; of the
// expensive ones, one joins it if it is empty, and each other becomes a task. The step ends with its last
// outstanding node, and deletes itself. The method is TensorFlow's (executor.cc); the code is ours.
template <class Propagator, class Scheduler>
class Step final : public StepBase {
  using Node = typename Propagator::TaggedNode;
  using Nodes = typename Propagator::TaggedNodeSeq;
  using Queue = typename Propagator::TaggedNodeReadyQueue;

 public:
  static void start(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs,
                    Executor::DoneCallback done) {
    Step* const step = new Step(args, graph, costs);
    Counts::add(Scheduler::counts().steps, 1);
    if (!step->open(std::move(done)).ok()) return step->finish(true);
    step->give(Task([step] { step->run_roots(); }));
  }

 private:
  // An asynchronous kernel at work. It keeps copies, because the task that has started it goes on with other
  // nodes.
  struct Async {
    Async(Step* of, const Node& started, Entry* inputs_in_graph, const Inputs& of_node,
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

    Step* const step;
    const Node node;
    Entry* const first_input;
    const Inputs inputs;
    OpKernelContext::Params params;
    NodeExecStatsInterface* const stats;
    OpKernelContext context;
  };

  // What a task needs for each node, made once for all of them.
  struct Workspace {
    OpKernelContext::Params params;
    Inputs inputs;
    EntryVector outputs{1};
    Nodes ready;
    Queue queue;
    int64_t scheduled_ns = 0;
  };

  Step(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs)
      : StepBase(args, graph), costs_(costs), propagator_(graph, args.step_id, false) {}

  void run_roots() {
    Workspace work;
    propagator_.ActivateRoots(graph_.root_nodes(), &work.ready);
    if (work.ready.empty()) return finish(false);
    outstanding_.store(static_cast<int64_t>(work.ready.size()), std::memory_order_relaxed);
    schedule(work);
    run(work);
  }

  void run_node(const Node& node, int64_t scheduled_ns) {
    Workspace work;
    work.scheduled_ns = scheduled_ns;
    work.queue.push_back(node);
    run(work);
  }

  // `outstanding_` counts these nodes already.
  void run_batch(std::unique_ptr<Nodes> nodes) {
    Workspace work;
    work.ready = std::move(*nodes);
    nodes.reset();
    schedule(work);
    run(work);
  }

  // Nothing of the step is used after the last node, since an asynchronous kernel may have ended the step by
  // then.
  void run(Workspace& work) {
    fill(work.params);
    bool is_last = false;
    int64_t nodes = 0;
    for (; !work.queue.empty(); ++nodes) {
      const Node node = work.queue.front();
      work.queue.pop_front();
      is_last = process(node, work);
    }
    Counts::add(Scheduler::counts().nodes, nodes);
    if (is_last) finish(false);
  }

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
    const bool is_last = settle(status, work.ready.size());
    if (!work.ready.empty()) schedule(work);
    return is_last;
  }

  // Counts a node as done and those that it has made ready as outstanding. Returns whether it was the last of
  // the step; then, and only then, the step may be gone as soon as another thread ends it.
  bool settle(const absl::Status& status, std::size_t ready) {
    if (!status.ok()) fail(status);
    if (ready == 0) return outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (ready > 1) outstanding_.fetch_add(static_cast<int64_t>(ready) - 1, std::memory_order_relaxed);
    return false;
  }

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

  // Runs on whatever thread calls back, at any depth of its stack: what became ready, and the end of the
  // step, go to the scheduler.
  void end_async(Async* finished) {
    std::unique_ptr<Async> async(finished);
    const NodeItem& item = async->node.get_node_item();
    NodeExecStatsInterface* const stats = async->stats;
    if (stats != nullptr) stats->RecordComputeEnded();
    EntryVector outputs(item.num_outputs);
    const absl::Status status = take_outputs(item, async->context, outputs.data(), stats);
    if (stats != nullptr) stats->SetMemory(&async->context);
    clear(async->first_input, item.num_inputs);
    Nodes ready;
    if (status.ok()) propagator_.PropagateOutputs(async->node, &outputs, &ready);
    outputs.clear();
    async.reset();  // what it refers to may be gone when the step has ended
    record_end(stats);
    if (settle(status, ready.size())) return finish(true);
    if (ready.size() == 1) {
      give(task_of(ready[0], scheduled_now()));
    } else if (!ready.empty()) {
      auto* const batch = new Nodes(std::move(ready));
      give(Task([this, batch] { run_batch(std::unique_ptr<Nodes>(batch)); }));
    }
  }

  // Distributes the ready nodes, which are outstanding already: to the queue, or as tasks to the scheduler.
  void schedule(Workspace& work) {
    std::vector<Task> tasks;  // allocates only if there are any
    const Node* expensive = nullptr;
    const int64_t now = scheduled_now();
    work.scheduled_ns = now;
    for (const Node& node : work.ready) {
      if (runs_inline_ || node.get_is_dead() || !costs_.is_expensive(node.get_node_item().node_id)) {
        work.queue.push_back(node);
      } else {
        if (expensive != nullptr) tasks.push_back(task_of(*expensive, now));
        expensive = &node;
      }
    }
    if (expensive != nullptr) {
      if (work.queue.empty()) {
        work.queue.push_back(*expensive);
      } else {
        tasks.push_back(task_of(*expensive, now));
      }
    }
    work.ready.clear();
    if (!tasks.empty()) give(tasks);
  }

  Task task_of(const Node& node, int64_t now) {
    return Task([this, node, now] { run_node(node, now); });
  }

  void give(std::span<const Task> tasks) {
    Counts::add(Scheduler::counts().tasks, static_cast<int64_t>(tasks.size()));
    Scheduler::spawn(runner_, tasks);
  }

  void give(const Task& task) { give(std::span(&task, 1)); }

  void record_end(NodeExecStatsInterface* stats) {
    if (stats == nullptr) return;
    stats->RecordExecutorEnded();
    stats->Done(device_->name());
  }

  static int64_t now_ns() { return static_cast<int64_t>(tensorflow::EnvTime::NowNanos()); }

  int64_t scheduled_now() const { return stats_collector_ != nullptr ? now_ns() : 0; }

  KernelCosts& costs_;
  Propagator propagator_;
};

}  // namespace tmflow::runtime
