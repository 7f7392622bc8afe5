// The update ops: gradient descent under a strategy, on reference and on resource variables.
#include <string>
#include <vector>

#include "strategy_attributes.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tmflow/checks.hpp"
#include "tracker_resource.hpp"
#include "variable_region.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

enum Input { kVariable, kAlpha, kDelta, kTracker, kWorker };

absl::Status check_shapes(InferenceContext* c, ShapeHandle variable) {
  TF_RETURN_IF_ERROR(check_parameters(c));
  ShapeHandle unused;
  TF_RETURN_IF_ERROR(c->WithRank(c->input(kAlpha), 0, &unused));
  TF_RETURN_IF_ERROR(c->WithRank(c->input(kWorker), 0, &unused));
  return c->Merge(variable, c->input(kDelta), &unused);
}

absl::Status ref_shapes(InferenceContext* c) {
  c->set_output(0, c->input(kVariable));
  return check_shapes(c, c->input(kVariable));
}

absl::Status resource_shapes(InferenceContext* c) {
  const auto* handle = c->input_handle_shapes_and_types(kVariable);
  const bool known = handle != nullptr && !handle->empty();
  return check_shapes(c, known ? handle->front().shape : c->UnknownShape());
}

REGISTER_OP("TmflowApplyGradientDescent")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("out: Ref(T)")
    .Attr("T: {float, double}")
    .Attr("strategy: {" + strategy_names("'") + "}")
    .Attr("parameters: list(string) = []")
    .Attr("variable: int >= 0")
    .SetIsStateful()
    .SetShapeFn(ref_shapes)
    .Doc("var -= alpha * delta in place, under `strategy`; `variable` is the number of var in the tracker.");

REGISTER_OP("TmflowResourceApplyGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Attr("T: {float, double}")
    .Attr("strategy: {" + strategy_names("'") + "}")
    .Attr("parameters: list(string) = []")
    .Attr("variable: int >= 0")
    .SetIsStateful()
    .SetShapeFn(resource_shapes)
    .Doc(R"(
var -= alpha * delta in place, under `strategy`; `variable` is the number of var in the tracker.
Whoever reads the variable shares its memory and sees later updates, as with a reference variable.
)");

template <class T>
class ApplyOp : public OpKernel {
 public:
  explicit ApplyOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("strategy", &strategy_));
    OP_REQUIRES_OK(context, context->GetAttr("parameters", &parameters_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
    std::optional<std::string> reason;
    try {
      reason = why_not(strategy_, parameters_);
    } catch (const std::invalid_argument& error) {
      reason = error.what();
    }
    OP_REQUIRES(
        context, !reason,
        absl::UnimplementedError(absl::StrCat("strategy ", strategy_, " cannot run here: ", *reason)));
  }

 protected:
  // Applies the inputs to the variable that `region(slot)` describes.
  template <class MakeRegion>
  void apply(OpKernelContext* context, MakeRegion region) {
    const auto alpha = finite_alpha<T>(scalar_input<T>(context, kAlpha, "alpha"));
    const auto worker = scalar_input<std::int32_t>(context, kWorker, "worker");
    const auto delta = context->input(kDelta).template flat<T>();
    const auto resource = tracker_input(context, kTracker);
    ThreadStats& stats = resource->tracker().stats(worker, variable_);
    VariableSlot& slot = resource->slot(variable_);
    VariableRegion<T>&& target = region(slot);
    slot.strategy<T>(strategy_, parameters_, target.mutex())
        .apply(target, {.alpha = alpha, .delta = {delta.data(), static_cast<std::size_t>(delta.size())}},
               stats);
  }

 private:
  std::string strategy_;
  std::vector<std::string> parameters_;
  int variable_ = 0;
};

template <class T>
class RefApplyOp final : public ApplyOp<T> {
 public:
  using ApplyOp<T>::ApplyOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      this->apply(context,
                  [&](VariableSlot&) { return RefRegion<T>(context, kVariable, &context->input(kDelta)); });
      context->forward_ref_input_to_ref_output(kVariable, 0);
    });
  }
};

template <class T>
class ResourceApplyOp final : public ApplyOp<T> {
 public:
  using ApplyOp<T>::ApplyOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto variable = variable_input(context, kVariable);
      this->apply(context, [&](VariableSlot& slot) {
        return ResourceRegion<T>(context, *variable, slot.own(), &context->input(kDelta));
      });
    });
  }
};

#define TMFLOW_REGISTER(T)                                                                              \
  REGISTER_KERNEL_BUILDER(Name("TmflowApplyGradientDescent").Device(DEVICE_CPU).TypeConstraint<T>("T"), \
                          RefApplyOp<T>);                                                               \
  REGISTER_KERNEL_BUILDER(                                                                              \
      Name("TmflowResourceApplyGradientDescent").Device(DEVICE_CPU).TypeConstraint<T>("T"),             \
      ResourceApplyOp<T>)

TMFLOW_REGISTER(float);
TMFLOW_REGISTER(double);
#undef TMFLOW_REGISTER

}  // namespace
}  // namespace tmflow::tf
