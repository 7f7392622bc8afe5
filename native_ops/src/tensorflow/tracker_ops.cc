// The ops of the tracker: make one, begin and end a step, read and reset the counts.
#include <cstdint>
#include <vector>

#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tracker_resource.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::ResourceHandle;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;
namespace shapes = tensorflow::shape_inference;

REGISTER_OP("TmflowTracker")
    .Attr("workers: int >= 1")
    .Attr("variables: int >= 1")
    .Output("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc("A step tracker, made with the session and gone with it.");

REGISTER_OP("TmflowBeginStep")
    .Input("tracker: resource")
    .Output("version: int64")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(
        "The steps completed so far. Every read of a variable in the step comes after it (control "
        "dependency).");

REGISTER_OP("TmflowEndStep")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("version: int64")
    .Output("staleness: int64")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(
        "Completes the step that began at `version`. It comes after every update of the step (control "
        "dependency).");

REGISTER_OP("TmflowStats")
    .Input("tracker: resource")
    .Output("updates: int64")
    .Output("staleness: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      c->set_output(1, c->Matrix(InferenceContext::kUnknownDim, 3));
      return absl::OkStatus();
    })
    .Doc("updates[worker, variable], and rows (worker, staleness, steps) for each staleness that occurred.");

REGISTER_OP("TmflowResetTracker")
    .Input("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::NoOutputs)
    .Doc("Forgets all counts.");

// The kernel of a stateful op lives as long as its session, and owns the tracker through the handle.
class TrackerOp : public OpKernel {
 public:
  explicit TrackerOp(OpKernelConstruction* context)
      : OpKernel(context), handle_(tensorflow::DT_RESOURCE, TensorShape()) {
    int workers = 0, variables = 0;
    OP_REQUIRES_OK(context, context->GetAttr("workers", &workers));
    OP_REQUIRES_OK(context, context->GetAttr("variables", &variables));
    handle_.scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(
        new TrackerResource(workers, variables), context->device()->name());
  }

  void Compute(OpKernelContext* context) override { context->set_output(0, handle_); }

 private:
  Tensor handle_;
};

class BeginStepOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      Tensor* version = nullptr;
      throw_if_error(context->allocate_output(0, TensorShape(), &version));
      version->scalar<std::int64_t>()() = tracker_input(context, 0)->tracker().begin_step();
    });
  }
};

class EndStepOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto worker = scalar_input<std::int32_t>(context, 1, "worker");
      const auto version = scalar_input<std::int64_t>(context, 2, "version");
      Tensor* staleness = nullptr;
      throw_if_error(context->allocate_output(0, TensorShape(), &staleness));
      staleness->scalar<std::int64_t>()() = tracker_input(context, 0)->tracker().end_step(worker, version);
    });
  }
};

class StatsOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto resource = tracker_input(context, 0);
      Tracker& tracker = resource->tracker();
      Tensor* updates = nullptr;
      throw_if_error(
          context->allocate_output(0, TensorShape({tracker.workers(), tracker.variables()}), &updates));
      std::vector<std::int64_t> rows;
      for (int worker = 0; worker < tracker.workers(); ++worker) {
        for (int variable = 0; variable < tracker.variables(); ++variable) {
          updates->matrix<std::int64_t>()(worker, variable) = tracker.stats(worker, variable).updates();
        }
        for (const auto& [staleness, steps] : tracker.staleness(worker)) {
          rows.insert(rows.end(), {worker, staleness, steps});
        }
      }
      Tensor* staleness = nullptr;
      const auto count = static_cast<std::int64_t>(rows.size() / 3);
      throw_if_error(context->allocate_output(1, TensorShape({count, 3}), &staleness));
      std::copy(rows.begin(), rows.end(), staleness->flat<std::int64_t>().data());
    });
  }
};

class ResetTrackerOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] { tracker_input(context, 0)->tracker().reset(); });
  }
};

REGISTER_KERNEL_BUILDER(Name("TmflowTracker").Device(DEVICE_CPU), TrackerOp);
REGISTER_KERNEL_BUILDER(Name("TmflowBeginStep").Device(DEVICE_CPU), BeginStepOp);
REGISTER_KERNEL_BUILDER(Name("TmflowEndStep").Device(DEVICE_CPU), EndStepOp);
REGISTER_KERNEL_BUILDER(Name("TmflowStats").Device(DEVICE_CPU), StatsOp);
REGISTER_KERNEL_BUILDER(Name("TmflowResetTracker").Device(DEVICE_CPU), ResetTrackerOp);

}  // namespace
}  // namespace tmflow::tf
