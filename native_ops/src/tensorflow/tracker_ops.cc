// The ops of the tracker: create one, begin and end a step, read and reset the counts.
#include <algorithm>
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

#define TMFLOW_TRACKER_ATTRIBUTES                    \
  Attr("workers: int >= 1")                          \
      .Attr("variables: int >= 1")                   \
      .Attr("measures: {'usual', 'full'} = 'usual'") \
      .Attr("has_slots: bool = false")

REGISTER_OP("TmflowTracker")
    .TMFLOW_TRACKER_ATTRIBUTES.Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Output("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(R"(
A step tracker that lives as long as the session. Updates and reads name their worker, or all give -1: then each has a
number that no other has meanwhile. With a shared_name, all graphs on this device that name it share one
tracker, which lives as long as its container; they must agree on the attributes. With full measures it also counts lost
updates and torn reads, times locks, and, with has_slots, counts elements that are inconsistent with an optimiser's slots.
)");

REGISTER_OP("TmflowAnonymousTracker")
    .TMFLOW_TRACKER_ATTRIBUTES.Output("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(
        "Like TmflowTracker, but each run creates a tracker that lives as long as its handle: for eager "
        "mode, "
        "where operations with equal attributes share a kernel.");

REGISTER_OP("TmflowBeginStep")
    .Input("tracker: resource")
    .Output("version: int64")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(
        "Returns the number of completed steps. Every read of a variable in the step must come after it "
        "(control "
        "dependency).");

REGISTER_OP("TmflowEndStep")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("version: int64")
    .Output("staleness: int64")
    .SetIsStateful()
    .SetShapeFn(shapes::ScalarShape)
    .Doc(
        "Completes the step that began at `version`. It must come after every update of the step (control "
        "dependency).");

REGISTER_OP("TmflowStats")
    .Input("tracker: resource")
    .Output("updates: int64")
    .Output("transactions: int64")
    .Output("aborts: int64")
    .Output("staleness: int64")
    .Output("contention: int64")
    .Output("locks: int64")
    .Output("reads: int64")
    .Output("lost: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Matrix(InferenceContext::kUnknownDim, InferenceContext::kUnknownDim));
      c->set_output(1, c->MakeShape({c->UnknownDim(), c->UnknownDim(), c->MakeDim(3)}));
      c->set_output(2, c->Matrix(InferenceContext::kUnknownDim, 4));
      c->set_output(3, c->Matrix(InferenceContext::kUnknownDim, 3));
      c->set_output(4, c->Matrix(InferenceContext::kUnknownDim, 5));
      c->set_output(5, c->MakeShape({c->UnknownDim(), c->UnknownDim(), c->MakeDim(2)}));
      c->set_output(6, c->Matrix(InferenceContext::kUnknownDim, 4));
      c->set_output(7, c->Matrix(InferenceContext::kUnknownDim, 5));
      return absl::OkStatus();
    })
    .Doc(R"(
updates[worker, variable]; transactions[worker, variable, (attempts, -1 if unknown; commits; fallbacks)]; rows of aborts
(worker, variable, raw status, count); rows of staleness (worker, staleness, steps); rows of contention (worker,
variable, kind, n, number of critical sections or updates with n events), where kind 0 is retries, 1 failed
publications, 2 taken blocks. With full measures also: locks[worker, variable, (ns waited, ns held)], else zeros; rows of
reads (worker, variable, reads, torn reads) if the strategy updates in place; rows of losses (variable, expected updates
of elements, lost updates of elements, elements, elements inconsistent with the slots; -1 for both without slots). No update
may run meanwhile.
)");

REGISTER_OP("TmflowResetTracker")
    .Input("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::NoOutputs)
    .Doc("Discards all counts.");

REGISTER_OP("TmflowReleaseTracker")
    .Input("tracker: resource")
    .SetIsStateful()
    .SetShapeFn(shapes::NoOutputs)
    .Doc(R"(
Gives up the strategies of the tracker's variables: until its next update through this tracker, a variable may be
updated under another one, through another tracker. Lost updates that were counted are discarded, the other counts stay.
No update or read may run meanwhile.
)");

// Creates trackers with the attributes of an op; each is owned through its handle.
class TrackerMaker : public OpKernel {
 public:
  explicit TrackerMaker(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("workers", &workers_));
    OP_REQUIRES_OK(context, context->GetAttr("variables", &variables_));
    std::string measures;
    OP_REQUIRES_OK(context, context->GetAttr("measures", &measures));
    full_ = measures == "full";
    OP_REQUIRES_OK(context, context->GetAttr("has_slots", &has_slots_));
  }

 protected:
  TrackerResource* make() const { return new TrackerResource(workers_, variables_, full_, has_slots_); }

  // A handle that owns one reference to the tracker.
  static Tensor handle_of(TrackerResource* tracker, const std::string& device) {
    Tensor handle(tensorflow::DT_RESOURCE, TensorShape());
    handle.scalar<ResourceHandle>()() = ResourceHandle::MakeRefCountingHandle(tracker, device);
    return handle;
  }

  bool agrees_with(TrackerResource& other) const {
    return other.tracker().workers() == workers_ && other.tracker().variables() == variables_ &&
           other.full() == full_ && other.has_slots() == has_slots_;
  }

 private:
  int workers_ = 0, variables_ = 0;
  bool full_ = false, has_slots_ = false;
};

// The kernel of a stateful op lives as long as its session, and the tracker lives as long as the kernel.
class TrackerOp final : public TrackerMaker {
 public:
  explicit TrackerOp(OpKernelConstruction* context) : TrackerMaker(context) {
    std::string container, name;
    OP_REQUIRES_OK(context, context->GetAttr("container", &container));
    OP_REQUIRES_OK(context, context->GetAttr("shared_name", &name));
    if (!context->status().ok()) return;
    TrackerResource* tracker = nullptr;
    if (name.empty()) {
      tracker = make();
    } else {
      tensorflow::ResourceMgr& manager = *context->resource_manager();
      OP_REQUIRES_OK(context, manager.LookupOrCreate<TrackerResource>(
                                  container.empty() ? manager.default_container() : container, name, &tracker,
                                  [this](TrackerResource** made) {
                                    *made = make();
                                    return absl::OkStatus();
                                  }));
    }
    handle_ = handle_of(tracker, context->device()->name());
    OP_REQUIRES(
        context, agrees_with(*tracker),
        absl::InvalidArgumentError(absl::StrCat(
            "the tracker '", name,
            "' exists with other numbers of workers or variables, other measures, or another has_slots")));
  }

  void Compute(OpKernelContext* context) override { context->set_output(0, handle_); }

 private:
  Tensor handle_;
};

class AnonymousTrackerOp final : public TrackerMaker {
 public:
  using TrackerMaker::TrackerMaker;

  void Compute(OpKernelContext* context) override {
    context->set_output(0, handle_of(make(), context->device()->name()));
  }
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
      const int workers = tracker.workers(), variables = tracker.variables();
      auto updates = output(context, 0, {workers, variables})->matrix<std::int64_t>();
      auto transactions = output(context, 1, {workers, variables, 3})->tensor<std::int64_t, 3>();
      auto locks = output(context, 5, {workers, variables, 2})->tensor<std::int64_t, 3>();
      std::vector<std::int64_t> aborts, staleness, contention, reads, lost;
      for (int worker = 0; worker < workers; ++worker) {
        for (int variable = 0; variable < variables; ++variable) {
          const ThreadStats& stats = tracker.stats(worker, variable);
          updates(worker, variable) = stats.updates();
          transactions(worker, variable, 0) = known_attempts(stats).value_or(-1);
          transactions(worker, variable, 1) = stats.commits();
          transactions(worker, variable, 2) = stats.fallbacks();
          locks(worker, variable, 0) = stats.waited_ns();
          locks(worker, variable, 1) = stats.held_ns();
          for (const Contention kind : kContentions) {
            for (std::int64_t n = 0; n <= ThreadStats::kMost; ++n) {
              if (const auto times = stats.counted(kind, n)) {
                contention.insert(contention.end(),
                                  {worker, variable, static_cast<std::int64_t>(kind), n, times});
              }
            }
          }
          VariableMeasures* const measures = resource->tracked(variable).measures();
          if (measures != nullptr && measures->shadow() != nullptr) {
            reads.insert(reads.end(), {worker, variable, stats.reads(), stats.torn()});
          }
          for (const auto& [status, count] : stats.aborts()) {
            aborts.insert(aborts.end(), {worker, variable, static_cast<std::int64_t>(status), count});
          }
        }
        for (const auto& [value, steps] : tracker.staleness(worker)) {
          staleness.insert(staleness.end(), {worker, value, steps});
        }
      }
      for (int variable = 0; variable < variables; ++variable) {
        if (VariableMeasures* const measures = resource->tracked(variable).measures()) {
          std::int64_t made = 0;
          for (int worker = 0; worker < workers; ++worker) made += tracker.stats(worker, variable).updates();
          const auto expected = measures->expected(made);
          const auto inconsistent = measures->inconsistent();
          lost.insert(lost.end(), {variable, expected, expected - measures->kept(),
                                   inconsistent ? static_cast<std::int64_t>(measures->elements()) : -1,
                                   inconsistent.value_or(-1)});
        }
      }
      output_rows(context, 2, aborts, 4);
      output_rows(context, 3, staleness, 3);
      output_rows(context, 4, contention, 5);
      output_rows(context, 6, reads, 4);
      output_rows(context, 7, lost, 5);
    });
  }

 private:
  static Tensor* output(OpKernelContext* context, int index, const TensorShape& shape) {
    Tensor* tensor = nullptr;
    throw_if_error(context->allocate_output(index, shape, &tensor));
    return tensor;
  }

  static void output_rows(OpKernelContext* context, int index, const std::vector<std::int64_t>& values,
                          int columns) {
    const auto rows = static_cast<std::int64_t>(values.size()) / columns;
    std::ranges::copy(values, output(context, index, {rows, columns})->flat<std::int64_t>().data());
  }
};

class ResetTrackerOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] { tracker_input(context, 0)->reset(); });
  }
};

class ReleaseTrackerOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] { tracker_input(context, 0)->release(); });
  }
};

REGISTER_KERNEL_BUILDER(Name("TmflowTracker").Device(DEVICE_CPU), TrackerOp);
REGISTER_KERNEL_BUILDER(Name("TmflowAnonymousTracker").Device(DEVICE_CPU), AnonymousTrackerOp);
REGISTER_KERNEL_BUILDER(Name("TmflowBeginStep").Device(DEVICE_CPU), BeginStepOp);
REGISTER_KERNEL_BUILDER(Name("TmflowEndStep").Device(DEVICE_CPU), EndStepOp);
REGISTER_KERNEL_BUILDER(Name("TmflowStats").Device(DEVICE_CPU), StatsOp);
REGISTER_KERNEL_BUILDER(Name("TmflowResetTracker").Device(DEVICE_CPU), ResetTrackerOp);
REGISTER_KERNEL_BUILDER(Name("TmflowReleaseTracker").Device(DEVICE_CPU), ReleaseTrackerOp);

}  // namespace
}  // namespace tmflow::tf
