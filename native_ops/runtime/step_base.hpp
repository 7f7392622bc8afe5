// What a run of a graph needs whatever its propagator and its scheduler: parameters, values, errors, the end.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/common_runtime/entry.h"
#include "tensorflow/core/common_runtime/executor.h"
#include "tensorflow/core/common_runtime/immutable_executor_state.h"
#include "tensorflow/core/common_runtime/step_stats_collector.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/util/tensor_slice_reader_cache.h"

namespace tmflow::runtime {

using tensorflow::AllocatorAttributes;
using tensorflow::Device;
using tensorflow::Entry;
using tensorflow::EntryVector;
using tensorflow::Executor;
using tensorflow::ImmutableExecutorState;
using tensorflow::NodeExecStatsInterface;
using tensorflow::NodeItem;
using tensorflow::OpKernelContext;
using tensorflow::TensorValue;

// The inputs of one node, as its kernel receives them.
struct Inputs {
  absl::InlinedVector<TensorValue, 4> values;
  absl::InlinedVector<AllocatorAttributes, 4> attributes;
  bool is_dead = false;
};

class StepBase {
 public:
  StepBase(const StepBase&) = delete;
  StepBase& operator=(const StepBase&) = delete;

 protected:
  StepBase(const Executor::Args& args, const ImmutableExecutorState& graph);
  virtual ~StepBase();

  // Asks the device for its context, and keeps `done`. After an error the step must be ended by `finish`.
  absl::Status open(Executor::DoneCallback done);

  // What is the same for every kernel of the step.
  void fill(OpKernelContext::Params& params);

  // The values of a node's inputs. References are read under their mutex where the kernel expects a value.
  static absl::Status prepare(const NodeItem& item, Entry* first_input, Inputs& inputs);

  // Moves what a kernel has produced into `outputs`, or returns its error.
  absl::Status take_outputs(const NodeItem& item, OpKernelContext& context, Entry* outputs,
                            NodeExecStatsInterface* stats);

  // Keeps the first error of the step, and stops what waits: receivers, queues, collectives.
  void fail(const absl::Status& status);

  // The graph has ended. The step ends now, or with its last deferred operation; `by_runner` calls `done` on
  // another thread, as is needed on a stack of unknown depth. Nothing of the step may be used afterwards.
  void finish(bool by_runner);

  static void clear(Entry* entries, int count) {
    for (int i = 0; i < count; ++i) entries[i].ClearVal();
  }

  const ImmutableExecutorState& graph_;
  Device* const device_;
  tensorflow::StepStatsCollectorInterface* const stats_collector_;
  const bool runs_inline_;
  std::atomic<int64_t> outstanding_{0};  // nodes that are ready or running
  Executor::Args::Runner runner_;        // a copy, because kernels keep a pointer to it

 private:
  void end(bool by_runner);

  const Executor::Args args_;
  const bool log_memory_;
  std::unique_ptr<Device> user_device_;  // the device with the threads that the caller has brought
  tensorflow::DeviceContext* device_context_ = nullptr;
  tensorflow::checkpoint::TensorSliceReaderCacheWrapper slice_readers_;
  Executor::DoneCallback done_;
  std::atomic<int64_t> unfinished_{1};  // the graph, and the deferred operations
  tensorflow::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
};

}  // namespace tmflow::runtime
