// The fused update ops: gradient descent on the weights of a dense layer, from its input and the gradient of
// its output, whose product is the gradient of the weights and is never written.
#include "apply_op.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

struct ByFactors {
  enum Input { kVariable, kAlpha, kInput, kOutputGradient, kTracker, kWorker };

  static absl::Status check_shapes(InferenceContext* c, ShapeHandle variable) {
    TF_RETURN_IF_ERROR(check_scalars(c, {kAlpha, kWorker}));
    ShapeHandle input, output, unused;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(kInput), 2, &input));
    TF_RETURN_IF_ERROR(c->WithRank(c->input(kOutputGradient), 2, &output));
    DimensionHandle examples;
    TF_RETURN_IF_ERROR(c->Merge(c->Dim(input, 0), c->Dim(output, 0), &examples));
    return c->Merge(variable, c->Matrix(c->Dim(input, 1), c->Dim(output, 1)), &unused);
  }

  template <class T>
  class Of final : public Operands<T> {
   public:
    // Throws StatusError for incompatible factors.
    explicit Of(OpKernelContext* context)
        : input_(context->input(kInput)), output_(context->input(kOutputGradient)) {
      if (input_.dims() != 2 || output_.dims() != 2 || input_.dim_size(0) != output_.dim_size(0)) {
        throw StatusError(absl::InvalidArgumentError(absl::StrCat(
            "input has shape ", input_.shape().DebugString(), " and output_gradient has shape ",
            output_.shape().DebugString(), ": they must be matrices with a row for each example")));
      }
      if (input_.dim_size(0) == 0) {
        throw StatusError(
            absl::InvalidArgumentError("input and output_gradient have no rows: there must be an example"));
      }
      gradient_ = {.input = elements_of<T>(input_),
                   .output = elements_of<T>(output_),
                   .examples = static_cast<std::size_t>(input_.dim_size(0))};
    }

    void check_shape(const tensorflow::TensorShape& variable) const override {
      const tensorflow::TensorShape fits({input_.dim_size(1), output_.dim_size(1)});
      if (variable == fits) return;
      throw StatusError(absl::InvalidArgumentError(absl::StrCat(
          "the variable has shape ", variable.DebugString(), ", input has shape ",
          input_.shape().DebugString(), " and output_gradient has shape ", output_.shape().DebugString(),
          ": the variable must have a row for each column of input and the columns of output_gradient, ",
          fits.DebugString())));
    }

    void check_apart(std::span<const T> variable, const std::string& name) const override {
      tmflow::check_apart(variable, gradient_.input, "input", name);
      tmflow::check_apart(variable, gradient_.output, "output_gradient", name);
    }

    GradientDescent<T> update(T alpha) const { return {.alpha = alpha, .dense = &gradient_}; }

   private:
    const Tensor& input_;
    const Tensor& output_;
    DenseGradient<T> gradient_;
  };
};

REGISTER_OP("TmflowApplyDenseGradientDescent")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("input: T")
    .Input("output_gradient: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("out: Ref(T)")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(reference_op_shapes<ByFactors>)
    .Doc(R"(
var -= alpha * (transposed input * output_gradient) in place, under `strategy`; `variable` is the number of var in the
tracker.
var: [rows, columns]
input: [examples, rows]
output_gradient: [examples, columns]
)");

REGISTER_OP("TmflowResourceApplyDenseGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("input: T")
    .Input("output_gradient: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(resource_op_shapes<ByFactors>)
    .Doc(R"(
Like TmflowApplyDenseGradientDescent, for a resource variable.
Readers of the variable share its memory and see later updates, as with a reference variable.
)");

TMFLOW_REGISTER_APPLY("TmflowApplyDenseGradientDescent", "TmflowResourceApplyDenseGradientDescent", ByFactors,
                      float);
TMFLOW_REGISTER_APPLY("TmflowApplyDenseGradientDescent", "TmflowResourceApplyDenseGradientDescent", ByFactors,
                      double);

}  // namespace
}  // namespace tmflow::tf
