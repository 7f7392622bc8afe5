// The update ops: gradient descent, or another optimiser, under a strategy, on reference and resource
// variables.
#include "apply_op.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

// An update with a gradient that is a tensor.
struct ByDelta {
  enum Input { kVariable, kAlpha, kDelta, kTracker, kWorker };

  static absl::Status check_shapes(InferenceContext* c, ShapeHandle variable) {
    TF_RETURN_IF_ERROR(check_scalars(c, {kAlpha, kWorker}));
    ShapeHandle unused;
    return c->Merge(variable, c->input(kDelta), &unused);
  }

  template <class T>
  class Of final : public Operands<T> {
   public:
    explicit Of(OpKernelContext* context) : delta_(context->input(kDelta)) {}

    void check_shape(const tensorflow::TensorShape& variable) const override {
      if (variable == delta_.shape()) return;
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat("the variable has shape ", variable.DebugString(), " and delta has shape ",
                       delta_.shape().DebugString(), ": they must be the same")));
    }

    void check_apart(std::span<const T> variable, const std::string& name) const override {
      tmflow::check_apart(variable, elements_of<T>(delta_), "delta", name);
    }

    GradientDescent<T> update(T alpha) const { return {.alpha = alpha, .delta = elements_of<T>(delta_)}; }

   private:
    const Tensor& delta_;
  };
};

REGISTER_OP("TmflowApplyGradientDescent")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("out: Ref(T)")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(reference_op_shapes<ByDelta>)
    .Doc("var -= alpha * delta in place, under `strategy`; `variable` is the number of var in the tracker.");

REGISTER_OP("TmflowResourceApplyGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(resource_op_shapes<ByDelta>)
    .Doc(R"(
var -= alpha * delta in place, under `strategy`; `variable` is the number of var in the tracker.
Readers of the variable share its memory and see later updates, as with a reference variable.
)");

REGISTER_OP("TmflowApplyOptimiser")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("slots: Ref(N * T)")
    .Output("out: Ref(T)")
    .TMFLOW_SLOT_ATTRIBUTES.TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES
    .SetShapeFn(reference_op_shapes<ByDelta>)
    .Doc(R"(
A step of the optimiser on var and its slots in place, under `strategy`, with the learning rate alpha and the gradient
delta; `variable` is the number of var in the tracker. The formulas are those of ApplyMomentum, ApplyAdagrad and ApplyAdam.
alpha: for Adam, corrected for the bias of the moments: learning rate * sqrt(1 - beta2^step) / (1 - beta1^step).
hyperparameters: those of TensorFlow's operations if none are given; "momentum=0.9" for momentum, "epsilon=1e-7" for Adagrad,
which adds it to the sum of squares, and first_rate (1 - beta1), second_rate (1 - beta2) and epsilon for Adam.
slots: each a variable that belongs to var alone, in the order of TensorFlow's operations.
)");

REGISTER_OP("TmflowResourceApplyOptimiser")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("delta: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("slots: N * resource")
    .TMFLOW_SLOT_ATTRIBUTES.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(resource_op_shapes<ByDelta>)
    .Doc("Like TmflowApplyOptimiser, for resource variables.");

TMFLOW_REGISTER_APPLY("TmflowApplyGradientDescent", "TmflowResourceApplyGradientDescent", ByDelta, float);
TMFLOW_REGISTER_APPLY("TmflowApplyGradientDescent", "TmflowResourceApplyGradientDescent", ByDelta, double);
TMFLOW_REGISTER_APPLY("TmflowApplyOptimiser", "TmflowResourceApplyOptimiser", ByDelta, float);
TMFLOW_REGISTER_APPLY("TmflowApplyOptimiser", "TmflowResourceApplyOptimiser", ByDelta, double);

}  // namespace
}  // namespace tmflow::tf
