// One run of a graph: nodes whose inputs have arrived are run, and what they produce makes others ready.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "counts.hpp"
#include "kernel_costs.hpp"
#include "kernel_step.hpp"
#include "task.hpp"
#include "tensorflow/core/common_runtime/propagator_state.h"
#include "tensorflow/core/common_runtime/simple_propagator_state.h"
#include "tensorflow/core/platform/denormal.h"

namespace tmflow::runtime {

// `Propagator` is TensorFlow's: PropagatorState for graphs with the control flow of TensorFlow 1 (frames,
// iterations, dead values), else SimplePropagatorState, which is faster. `Scheduler` decides which threads
// run tasks; schedulers/ has one file for each.
//
// A task runs a queue of nodes until it is empty. Cheap nodes that become ready join the queue; of the
// expensive ones, one joins it if it is empty, and each other becomes a task. The step ends with its last
// outstanding node, and deletes itself. The method is TensorFlow's (executor.cc); the code is ours.
template <class Propagator, class Scheduler>
class Step final : public KernelStep<Propagator, Step<Propagator, Scheduler>> {
  using Base = KernelStep<Propagator, Step>;
  using Queue = typename Propagator::TaggedNodeReadyQueue;
  using Base::costs_, Base::graph_, Base::outstanding_, Base::propagator_, Base::runner_, Base::runs_inline_;
  using Base::fail, Base::fill, Base::finish, Base::open, Base::process, Base::scheduled_now;
  using typename Base::Node, typename Base::Nodes, typename Base::Workspace;
  friend Base;

 public:
  static void start(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs,
                    Executor::DoneCallback done) {
    Step* const step = new Step(args, graph, costs);
    Counts::add(Scheduler::counts().steps, 1);
    if (!step->open(std::move(done)).ok()) return step->finish(true);
    step->give(Task([step] { step->run_roots(); }));
  }

 private:
  struct Work : Workspace {
    Queue queue;
  };

  Step(const Executor::Args& args, const ImmutableExecutorState& graph, KernelCosts& costs)
      : Base(args, graph, costs) {}

  void run_roots() {
    Work work;
    propagator_.ActivateRoots(graph_.root_nodes(), &work.ready);
    if (work.ready.empty()) return finish(false);
    outstanding_.store(static_cast<int64_t>(work.ready.size()), std::memory_order_relaxed);
    schedule(work);
    run(work);
  }

  void run_node(const Node& node, int64_t scheduled_ns) {
    Work work;
    work.scheduled_ns = scheduled_ns;
    work.queue.push_back(node);
    run(work);
  }

  // `outstanding_` counts these nodes already.
  void run_batch(std::unique_ptr<Nodes> nodes) {
    Work work;
    work.ready = std::move(*nodes);
    nodes.reset();
    schedule(work);
    run(work);
  }

  // Nothing of the step is used after the last node, since an asynchronous kernel may have ended the step by
  // then.
  void run(Work& work) {
    // As TensorFlow's threads do; with denormal numbers the results would differ from theirs.
    const tensorflow::port::ScopedFlushDenormal flush;
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

  // Runs on the thread of the task.
  bool ended(const Node&, const absl::Status& status, Workspace& work) {
    const bool is_last = settle(status, work.ready.size());
    if (!work.ready.empty()) schedule(static_cast<Work&>(work));
    return is_last;
  }

  // What became ready, and the end of the step, go to the scheduler.
  void ended_later(const Node&, const absl::Status& status, Nodes ready) {
    if (settle(status, ready.size())) return finish(true);
    if (ready.size() == 1) {
      give(task_of(ready[0], scheduled_now()));
    } else if (!ready.empty()) {
      auto* const batch = new Nodes(std::move(ready));
      give(Task([this, batch] { run_batch(std::unique_ptr<Nodes>(batch)); }));
    }
  }

  // Counts a node as done and those that it has made ready as outstanding. Returns whether it was the last of
  // the step; then, and only then, the step may be gone as soon as another thread ends it.
  bool settle(const absl::Status& status, std::size_t ready) {
    if (!status.ok()) fail(status);
    if (ready == 0) return outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1;
    if (ready > 1) outstanding_.fetch_add(static_cast<int64_t>(ready) - 1, std::memory_order_relaxed);
    return false;
  }

  // Distributes the ready nodes, which are outstanding already: to the queue, or as tasks to the scheduler.
  void schedule(Work& work) {
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
};

}  // namespace tmflow::runtime
