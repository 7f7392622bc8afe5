// An executor of TensorFlow with a scheduler of ours, and its factory.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "step.hpp"
#include "tensorflow/core/common_runtime/executor_factory.h"

namespace tmflow::runtime {

// Runs one graph, or the part of a graph on one device, any number of times and also at the same time.
template <class Scheduler>
class LocalExecutor final : public Executor {
 public:
  explicit LocalExecutor(const tensorflow::LocalExecutorParams& params) : graph_(params) {}

  // Creates the kernels.
  absl::Status initialise(const tensorflow::Graph& graph) {
    if (absl::Status status = graph_.Initialize(graph); !status.ok()) return status;
    costs_.emplace(graph_.graph_view());
    Counts::add(Scheduler::counts().executors, 1);
    return absl::OkStatus();
  }

 private:
  void RunAsyncInternal(const Args& args, DoneCallback done) override {
    if (graph_.requires_control_flow_support()) {
      Step<tensorflow::PropagatorState, Scheduler>::start(args, graph_, *costs_, std::move(done));
    } else {
      Step<tensorflow::SimplePropagatorState, Scheduler>::start(args, graph_, *costs_, std::move(done));
    }
  }

  ImmutableExecutorState graph_;
  std::optional<KernelCosts> costs_;
};

// The executor of a scheduler.
template <class Scheduler>
struct ExecutorOf {
  using type = LocalExecutor<Scheduler>;
};

template <class Scheduler>
class Factory final : public tensorflow::ExecutorFactory {
 public:
  absl::Status NewExecutor(const tensorflow::LocalExecutorParams& params, const tensorflow::Graph& graph,
                           std::unique_ptr<Executor>* created) override try {
    if constexpr (requires { Scheduler::start(); }) Scheduler::start();
    auto executor = std::make_unique<typename ExecutorOf<Scheduler>::type>(params);
    if (absl::Status status = executor->initialise(graph); !status.ok()) return status;
    *created = std::move(executor);
    return absl::OkStatus();
  } catch (const std::exception& error) {  // TensorFlow, which calls this, knows no exceptions
    return absl::FailedPreconditionError(error.what());
  }
};

}  // namespace tmflow::runtime
