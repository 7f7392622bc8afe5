#include "step_base.hpp"

#include <utility>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/renamed_device.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/log_memory.h"
#include "tensorflow/core/framework/node_def_util.h"
#include "tensorflow/core/lib/core/errors.h"

namespace tmflow::runtime {
namespace {

using tensorflow::DataType;
using tensorflow::DataTypeString;
using tensorflow::Tensor;

// What a transfer receives for a dead input. It is never destroyed, because steps may run while the process
// ends.
Tensor* empty_tensor() {
  static Tensor* const empty = new Tensor;
  return empty;
}

absl::Status wrong_type(const NodeItem& item, int output, DataType type) {
  return tensorflow::errors::Internal("Output ", output, " of type ", DataTypeString(type),
                                      " does not match declared output type ",
                                      DataTypeString(item.output_type(output)), " for node ",
                                      tensorflow::FormatNodeDefForError(item.kernel->def()));
}

}  // namespace

StepBase::StepBase(const Executor::Args& args, const ImmutableExecutorState& graph)
    : graph_(graph),
      device_(graph.params().device),
      stats_collector_(args.stats_collector),
      runs_inline_(args.run_all_kernels_inline),
      runner_(args.runner),
      args_(args),
      log_memory_(tensorflow::LogMemory::IsEnabled()) {
  if (args.user_intra_op_threadpool != nullptr) {
    user_device_ = tensorflow::RenamedDevice::NewRenamedDevice(device_->name(), device_, false, false,
                                                               args.user_intra_op_threadpool);
  }
}

StepBase::~StepBase() {
  if (device_context_ != nullptr) device_context_->Unref();
}

absl::Status StepBase::open(Executor::DoneCallback done) {
  done_ = std::move(done);
  absl::Status status = device_->TryGetDeviceContext(&device_context_);
  if (!status.ok()) fail(status);
  return status;
}

void StepBase::fill(OpKernelContext::Params& params) {
  params.step_id = args_.step_id;
  params.start_time_usecs = args_.start_time_usecs;
  params.deadline = args_.deadline;
  params.device = user_device_ ? user_device_.get() : device_;
  params.log_memory = log_memory_;
  params.resource_manager = device_->resource_manager();
  params.step_container = args_.step_container;
  params.rendezvous = args_.rendezvous;
  params.collective_executor = args_.collective_executor;
  params.session_config = args_.session_config;
  params.session_state = args_.session_state;
  params.session_handle = args_.session_handle;
  params.session_metadata = graph_.params().session_metadata;
  params.tensor_store = args_.tensor_store;
  params.cancellation_manager = args_.cancellation_manager;
  params.coordination_service_agent = args_.coordination_service_agent;
  params.stack_trace = args_.stack_trace;
  params.call_frame = args_.call_frame;
  params.function_library = graph_.params().function_library;
  params.slice_reader_cache = &slice_readers_;
  params.op_device_context = device_context_;
  params.runner = &runner_;
  params.run_all_kernels_inline = runs_inline_;
  params.stats_collector = stats_collector_;
  // A deferred operation returns before its work is done, and the step must not end before that.
  params.inc_num_deferred_ops_function = [this] { unfinished_.fetch_add(1, std::memory_order_relaxed); };
  params.dec_num_deferred_ops_function = [this] { finish(true); };
}

// The rules of this function are those of TensorFlow's executor (executor.cc, PrepareInputs).
absl::Status StepBase::prepare(const NodeItem& item, Entry* first_input, Inputs& inputs) {
  inputs.values.resize(item.num_inputs);
  inputs.attributes.resize(item.num_inputs);
  inputs.is_dead = false;
  for (int i = 0; i < item.num_inputs; ++i) {
    Entry& entry = first_input[i];
    TensorValue& value = inputs.values[i];
    const bool expects_reference = item.is_any_input_ref_typed && tensorflow::IsRefType(item.input_type(i));
    inputs.attributes[i] = entry.alloc_attr;
    value.mutex_if_ref = nullptr;
    switch (entry.state) {
      case Entry::State::NO_VALUE:  // only of a merge, or of a dead transfer
        value.tensor = nullptr;
        if (!item.is_merge) {
          entry.state = Entry::State::HAS_CONST_TENSOR;
          entry.const_tensor = empty_tensor();
          value.tensor = empty_tensor();
          inputs.is_dead = true;
        }
        continue;
      case Entry::State::HAS_VALUE:
        value.tensor = entry.val.get();
        break;
      case Entry::State::HAS_CONST_TENSOR:
        // TensorValue has no constant tensor; the kernel's context refuses to change one that is not a
        // reference.
        value.tensor = const_cast<Tensor*>(entry.const_tensor);
        break;
      case Entry::State::HAS_REF_TENSOR: {
        tensorflow::mutex* const mutex = entry.ref_tensor.mu;
        Tensor* const referenced = entry.ref_tensor.tensor;
        {
          tensorflow::tf_shared_lock lock(*mutex);
          if (!referenced->IsInitialized() && !item.is_initialization_op) {
            return tensorflow::AttachDef(
                tensorflow::errors::FailedPrecondition("Attempting to use uninitialized value ",
                                                       item.kernel->requested_input(i)),
                item.kernel->def());
          }
          if (!expects_reference) {
            entry.val.Init(*referenced);
            entry.state = Entry::State::HAS_VALUE;
          }
        }
        if (expects_reference) {
          value.mutex_if_ref = mutex;
          value.tensor = referenced;
          continue;
        }
        value.tensor = entry.val.get();
        // Another operation may have given the variable another type since the reference was made.
        if (item.input_type(i) != value.tensor->dtype()) {
          return tensorflow::AttachDef(tensorflow::errors::InvalidArgument(
                                           i, "-th input expects type ", DataTypeString(item.input_type(i)),
                                           " but automatically dereferenced input tensor has type ",
                                           DataTypeString(value.tensor->dtype())),
                                       item.kernel->def());
        }
        continue;
      }
    }
    if (expects_reference) {
      return tensorflow::AttachDef(tensorflow::errors::InvalidArgument(i, "-th input expects a ref type"),
                                   item.kernel->def());
    }
  }
  return absl::OkStatus();
}

// The rules of this function are those of TensorFlow's executor (executor.cc, ProcessOutputs).
absl::Status StepBase::take_outputs(const NodeItem& item, OpKernelContext& context, Entry* outputs,
                                    NodeExecStatsInterface* stats) {
  if (absl::Status status = context.status(); !status.ok()) {
    status = tensorflow::AttachDef(status, item.kernel->def());
    if (absl::IsResourceExhausted(status)) {
      if (stats_collector_ != nullptr) {
        const std::string allocations = stats_collector_->ReportAllocsOnResourceExhausted(status.message());
        status =
            tensorflow::errors::CreateWithUpdatedMessage(status, absl::StrCat(status.message(), allocations));
      }
    } else if (absl::IsUnavailable(status) && !item.is_distributed_communication) {
      status = tensorflow::errors::ReplaceErrorFromNonCommunicationOps(status, item.kernel->name());
    }
    return status;
  }
  absl::Status status;
  for (int i = 0; i < item.num_outputs; ++i) {
    const TensorValue value = context.release_output(i);
    Entry& output = outputs[i];
    if (value.tensor == nullptr) {
      const bool is_needed = item.outputs_required == nullptr || item.outputs_required[i];
      if (is_needed && !item.is_recv_or_switch) {
        status.Update(tensorflow::errors::Internal("Missing ", i, "-th output from ",
                                                   tensorflow::FormatNodeDefForError(item.kernel->def())));
      }
      continue;
    }
    output.alloc_attr = context.output_alloc_attr(i);
    const DataType type = value.dtype_safe();
    if (type != item.output_type(i)) {
      status.Update(wrong_type(item, i, type));
    } else {
      if (stats != nullptr && value.tensor->IsInitialized()) stats->SetOutput(i, value.tensor);
      if (value.is_ref()) {
        output.state = Entry::State::HAS_REF_TENSOR;
        output.ref_tensor.tensor = value.tensor;
        output.ref_tensor.mu = value.mutex_if_ref;
      } else {
        output.state = Entry::State::HAS_VALUE;
        output.val.Init(std::move(*value.tensor));
      }
    }
    if (!value.is_ref()) delete value.tensor;
  }
  return status;
}

void StepBase::fail(const absl::Status& status) {
  absl::Status kept = status;
  {
    tensorflow::mutex_lock lock(mutex_);
    if (!status_.ok()) return;
    // After a cancellation, its consequences must not hide the error that was its cause.
    tensorflow::CancellationManager* const cancellation = args_.cancellation_manager;
    if (cancellation != nullptr && cancellation->IsCancelled() &&
        (absl::IsCancelled(status) || absl::IsAborted(status))) {
      kept = tensorflow::StatusGroup::MakeDerived(status);
    }
    status_ = kept;
  }
  if (args_.rendezvous != nullptr) args_.rendezvous->StartAbort(status);
  if (args_.cancellation_manager != nullptr) {
    args_.cancellation_manager->StartCancelWithStatus(kept);
  } else if (args_.collective_executor != nullptr) {
    args_.collective_executor->StartAbort(status);
  }
}

void StepBase::finish(bool by_runner) {
  if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) end(by_runner);
}

void StepBase::end(bool by_runner) {
  absl::Status status;
  {
    tensorflow::mutex_lock lock(mutex_);
    status = status_;
  }
  const bool waits_for_device = args_.sync_on_finish && status.ok();
  auto call = [done = std::move(done_)](const absl::Status& of_step) { done(of_step); };
  Device* const device = device_;
  Executor::Args::Runner runner = std::move(runner_);
  // The caller may destroy whatever the step refers to as soon as it is told.
  if (waits_for_device) {
    device->Sync([this, runner = std::move(runner), call = std::move(call)](const absl::Status& synced) {
      delete this;
      runner([call, synced] { call(synced); });
    });
    return;
  }
  delete this;
  if (by_runner) {
    runner([call = std::move(call), status = std::move(status)] { call(status); });
  } else {
    call(status);
  }
}

}  // namespace tmflow::runtime
