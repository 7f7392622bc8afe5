// The ops that read a variable, and those that notify its strategy of other uses: a read outside the
// strategy, a request for up-to-date memory, an assignment.
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "strategy_attributes.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tracker_resource.hpp"
#include "variable_region.hpp"
#include "variable_shapes.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::TensorShape;
using tensorflow::shape_inference::InferenceContext;

enum Input { kVariable, kTracker, kWorker };

absl::Status read_shapes(InferenceContext* c, tensorflow::shape_inference::ShapeHandle variable) {
  TF_RETURN_IF_ERROR(check_parameters(c));
  tensorflow::shape_inference::ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(kWorker), 0, &unused));
  c->set_output(0, variable);
  return absl::OkStatus();
}

REGISTER_OP("TmflowNoteRead")
    .Input("var: Ref(T)")
    .Input("tracker: resource")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(check_parameters)
    .Doc(R"(
Announces a read of all elements of var; only emulated transactions need this, because real ones notice the read
itself. `strategy` and the other attributes are those of TmflowApplyGradientDescent.
)");

REGISTER_OP("TmflowResourceNoteRead")
    .Input("var: resource")
    .Input("tracker: resource")
    .TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(check_parameters)
    .Doc("Like TmflowNoteRead, for a resource variable.");

REGISTER_OP("TmflowSettle")
    .Input("var: Ref(T)")
    .Input("tracker: resource")
    .Attr("restart: bool = false")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(check_parameters)
    .Doc(R"(
Copies the variable to the memory of var, for a strategy that keeps it elsewhere; with `restart`, copies the memory of
var, which was assigned, to the variable. Does nothing for other strategies. No update may run meanwhile. `strategy`
and the other attributes are those of TmflowApplyGradientDescent.
)");

REGISTER_OP("TmflowResourceSettle")
    .Input("var: resource")
    .Input("tracker: resource")
    .Attr("restart: bool = false")
    .TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(check_parameters)
    .Doc("Like TmflowSettle, for a resource variable.");

REGISTER_OP("TmflowRead")
    .Input("var: Ref(T)")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("value: T")
    .Attr("consistent: bool")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES
    .SetShapeFn([](InferenceContext* c) { return read_shapes(c, reference_shape(c, kVariable)); })
    .Doc(R"(
A copy of var: if `consistent`, read by `strategy` with its read consistency, else element by element. A tracker with
full measures counts it and whether it was torn. `strategy` and the other attributes are those of
TmflowApplyGradientDescent.
)");

REGISTER_OP("TmflowResourceRead")
    .Input("var: resource")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("value: T")
    .Attr("consistent: bool")
    .TMFLOW_STRATEGY_ATTRIBUTES
    .SetShapeFn([](InferenceContext* c) { return read_shapes(c, resource_shape(c, kVariable)); })
    .Doc("Like TmflowRead, for a resource variable.");

REGISTER_OP("TmflowResourceView")
    .Input("var: resource")
    .Output("value: T")
    .Attr("T: {float, double}")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, resource_shape(c, kVariable));
      return absl::OkStatus();
    })
    .Doc(R"(
The memory of var, not a copy: it changes with every later update in place, like the output of a reference variable.
ReadVariableOp returns a value instead: an update that finds it still in use copies var first.
)");

// The tensor into which a variable is read: the variable must keep the shape that it had at first.
template <class T>
class Destination final : public Operands<T> {
 public:
  void check_shape(const TensorShape& variable) const override {
    if (tensor_ == nullptr || variable == tensor_->shape()) return;
    throw StatusError(absl::AbortedError(absl::StrCat("the variable was assigned a value of shape ",
                                                      variable.DebugString(), " while it was read")));
  }
  void check_apart(std::span<const T>, const std::string&) const override {}

  void allocate(OpKernelContext* context, const TensorShape& shape) {
    throw_if_error(context->allocate_output(0, shape, &tensor_));
  }
  std::span<T> elements() {
    return {tensor_->flat<T>().data(), static_cast<std::size_t>(tensor_->NumElements())};
  }

 private:
  Tensor* tensor_ = nullptr;
};

// The use of a variable by one of these ops: its strategy and the tracker's other state for it.
template <class T>
struct Variable {
  OpKernelContext* context;
  TrackerResource& resource;
  int number;                                                       // in the tracker
  std::function<VariableMeasures*(std::size_t elements)> measures;  // as TrackedVariable::measures_of_read
  VariableRegion<T>& region;
  AnyStrategy<ForeignRegion<T>>& strategy;
  Destination<T>& destination;  // of the region's check
};

// Each kind of op: its own attributes, and `run`.
struct NoteRead {
  static constexpr Access kAccess = Access::reads;

  NoteRead(OpKernelConstruction*, const Listed&) {}

  template <class T>
  void run(const Variable<T>& variable) const {
    variable.strategy.note_read(variable.region);
  }
};

class Settle {
 public:
  static constexpr Access kAccess = Access::updates;

  Settle(OpKernelConstruction* context, const Listed& strategy) : writes_(strategy.keeps_elsewhere) {
    OP_REQUIRES_OK(context, context->GetAttr("restart", &restart_));
  }

  template <class T>
  void run(const Variable<T>& variable) const {
    if (writes_ && !restart_) variable.region.begin();
    restart_ ? variable.strategy.restart(variable.region) : variable.strategy.settle(variable.region);
  }

 private:
  const bool writes_;  // the variable's memory
  bool restart_ = false;
};

class Read {
 public:
  static constexpr Access kAccess = Access::reads;

  Read(OpKernelConstruction* context, const Listed& strategy) {
    OP_REQUIRES_OK(context, context->GetAttr("consistent", &consistent_));
    OP_REQUIRES(
        context, !consistent_ || strategy.info.snapshots != Consistency::none,
        absl::UnimplementedError(absl::StrCat("strategy ", strategy.info.name, " has no consistent read")));
    OP_REQUIRES(context, consistent_ || !strategy.keeps_elsewhere,
                absl::UnimplementedError(absl::StrCat("strategy ", strategy.info.name,
                                                      " does not keep the variable in its memory, "
                                                      "so it has no plain read")));
  }

  template <class T>
  void run(const Variable<T>& variable) const {
    const auto named = scalar_input<std::int32_t>(variable.context, kWorker, "worker");
    const WorkerOfCall worker(variable.resource.leases(), named);
    ThreadStats& stats = variable.resource.tracker().stats(worker.number(), variable.number);
    variable.region.memory(Holding::nothing);
    variable.destination.allocate(variable.context, variable.region.shape());
    const Reading<T> reading{.into = variable.destination.elements()};
    VariableMeasures* const measures = variable.measures(reading.into.size());
    measured_read(measures, reading, stats,
                  [&](const Reading<T>& measured) { read(variable, measured, stats); });
  }

 private:
  template <class T>
  void read(const Variable<T>& variable, const Reading<T>& reading, ThreadStats& stats) const {
    if (consistent_) return variable.strategy.read(variable.region, reading, stats);
    const auto memory = variable.region.memory(Holding::nothing);
    reading(memory, 0, memory.size());
  }

  bool consistent_ = false;
};

template <class Kind, class T>
class LookOp : public OpKernel {
 public:
  explicit LookOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("strategy", &strategy_));
    OP_REQUIRES_OK(context, context->GetAttr("parameters", &parameters_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
    kind_.emplace(context, listed_strategy(strategy_));
  }

 protected:
  // Runs on the variable of this state, which `region(operands)` describes.
  template <class MakeRegion>
  void look(OpKernelContext* context, VariableState& state, MakeRegion region) {
    const auto resource = tracker_input(context, kTracker);
    resource->tracker().stats(0, variable_);  // throws for a variable out of range
    TrackedVariable& tracked = resource->tracked(variable_);
    Destination<T> destination;
    VariableRegion<T>&& target = region(destination);
    auto& strategy = tracked.strategy<T>(state, strategy_, parameters_);
    const auto measures = [&](std::size_t elements) {
      return tracked.measures_of_read(strategy_, parameters_, elements);
    };
    kind_->run(Variable<T>{context, *resource, variable_, measures, target, strategy, destination});
  }

 private:
  std::string strategy_;
  std::vector<std::string> parameters_;
  int variable_ = 0;
  std::optional<Kind> kind_;
};

template <class Kind, class T>
class RefLookOp final : public LookOp<Kind, T> {
 public:
  explicit RefLookOp(OpKernelConstruction* context) : LookOp<Kind, T>(context) {
    OP_REQUIRES_OK(context, context->GetAttr("container", &container_));
  }

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto state = reference_state(context, container_, *context->input_ref_mutex(kVariable));
      this->look(context, *state, [&](const Destination<T>& destination) {
        return RefRegion<T>(context, kVariable, &destination);
      });
    });
  }

 private:
  std::string container_;
};

template <class Kind, class T>
class ResourceLookOp final : public LookOp<Kind, T> {
 public:
  using LookOp<Kind, T>::LookOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto variable = variable_input(context, kVariable);
      const auto state = ResourceStates::all().of(*variable);
      this->look(context, *state, [&](const Destination<T>& destination) {
        return ResourceRegion<T>(context, *variable, state->memory(), Kind::kAccess, &destination);
      });
    });
  }
};

class ViewOp final : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto variable = variable_input(context, kVariable);
      const auto state = ResourceStates::all().of(*variable);
      const tensorflow::tf_shared_lock reading(*variable->mu());
      const Tensor& tensor = *variable->tensor();
      if (!variable->is_initialized) {
        throw StatusError(absl::FailedPreconditionError("the variable is not initialized"));
      }
      if (tensor.dtype() != output_type(0)) {
        throw StatusError(absl::InvalidArgumentError(
            absl::StrCat("the variable is ", tensorflow::DataTypeString(tensor.dtype()), " and the view is ",
                         tensorflow::DataTypeString(output_type(0)), ": they must have the same type")));
      }
      // No update writes memory that does not belong to the variable alone, so it is returned as it is.
      auto own = state->memory().own(tensor);
      context->set_output(0, own ? Tensor(tensor.dtype(), tensor.shape(), std::move(own)) : tensor);
    });
  }
};

REGISTER_KERNEL_BUILDER(Name("TmflowResourceView").Device(DEVICE_CPU), ViewOp);

#define TMFLOW_REGISTER_OF(Kind, T)                                                               \
  REGISTER_KERNEL_BUILDER(Name("Tmflow" #Kind).Device(DEVICE_CPU).TypeConstraint<T>("T"),         \
                          RefLookOp<Kind, T>);                                                    \
  REGISTER_KERNEL_BUILDER(Name("TmflowResource" #Kind).Device(DEVICE_CPU).TypeConstraint<T>("T"), \
                          ResourceLookOp<Kind, T>)
#define TMFLOW_REGISTER(Kind)      \
  TMFLOW_REGISTER_OF(Kind, float); \
  TMFLOW_REGISTER_OF(Kind, double)

TMFLOW_REGISTER(NoteRead);
TMFLOW_REGISTER(Settle);
TMFLOW_REGISTER(Read);
#undef TMFLOW_REGISTER
#undef TMFLOW_REGISTER_OF

}  // namespace
}  // namespace tmflow::tf
