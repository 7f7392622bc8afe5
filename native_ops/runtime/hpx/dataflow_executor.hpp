// An executor of TensorFlow that makes a graph of futures in each step, as the HPX backend of 2017 did.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "../counts.hpp"
#include "../executor.hpp"
#include "../kernel_costs.hpp"
#include "../schedulers/hpx_tasks.hpp"

namespace tmflow::runtime {

// Its tasks are HPX's; nothing but the steps of DataflowExecutor gives it any.
struct HpxDataflow {
  static constexpr const char* kName = "hpx_dataflow";

  static Counts& counts() {
    static Counts counts;
    return counts;
  }

  static void start() { HpxTasks::start(); }

  static void spawn(const Runner& runner, std::span<const Task> tasks) { HpxTasks::spawn(runner, tasks); }
};

// A node of the graph, and the nodes whose ends it waits for.
struct Dependence {
  const tensorflow::NodeItem* item;
  std::vector<int> on;  // node IDs
};

// In each step, every node is a call of hpx::dataflow with the futures of the nodes that it depends on. A
// future can be ready only once, so graphs with the loops of TensorFlow 1 run as with the scheduler of HPX.
class DataflowExecutor final : public Executor {
 public:
  explicit DataflowExecutor(const tensorflow::LocalExecutorParams& params) : graph_(params) {}

  // Creates the kernels.
  absl::Status initialise(const tensorflow::Graph& graph);

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override;

  ImmutableExecutorState graph_;
  std::optional<KernelCosts> costs_;
  std::vector<Dependence> dependences_;  // each after those that it depends on
};

template <>
struct ExecutorOf<HpxDataflow> {
  using type = DataflowExecutor;
};

}  // namespace tmflow::runtime
