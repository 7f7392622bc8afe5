// The update ops of rows: a step on some rows of a variable, as IndexedSlices describe it.
#include <cstdint>
#include <optional>
#include <span>

#include "apply_op.hpp"
#include "tmflow/core/gathered_rows.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::shape_inference::DimensionHandle;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

struct ByRows {
  enum Input { kVariable, kAlpha, kIndices, kValues, kTracker, kWorker };

  static absl::Status check_shapes(InferenceContext* c, ShapeHandle variable) {
    TF_RETURN_IF_ERROR(check_scalars(c, {kAlpha, kWorker}));
    ShapeHandle indices, values, row, row_of_variable, unused;
    DimensionHandle n;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(kIndices), 1, &indices));
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(c->input(kValues), 1, &values));
    TF_RETURN_IF_ERROR(c->Merge(c->Dim(indices, 0), c->Dim(values, 0), &n));
    TF_RETURN_IF_ERROR(c->WithRankAtLeast(variable, 1, &variable));
    TF_RETURN_IF_ERROR(c->Subshape(values, 1, &row));
    TF_RETURN_IF_ERROR(c->Subshape(variable, 1, &row_of_variable));
    return c->Merge(row, row_of_variable, &unused);
  }

  template <class T>
  class Of final : public Operands<T> {
   public:
    // Throws StatusError for operands that do not belong together.
    explicit Of(OpKernelContext* context)
        : indices_(context->input(kIndices)), values_(context->input(kValues)) {
      if (indices_.dims() != 1 || values_.dims() == 0 || indices_.dim_size(0) != values_.dim_size(0)) {
        throw StatusError(absl::InvalidArgumentError(
            absl::StrCat("indices has shape ", indices_.shape().DebugString(), " and values has shape ",
                         values_.shape().DebugString(), ": there must be a row of values for each index")));
      }
      const auto indices = indices_.flat<std::int64_t>();
      const auto n = static_cast<std::size_t>(indices_.NumElements());
      std::int64_t width = 1;
      for (int axis = 1; axis < values_.dims(); ++axis) width *= values_.dim_size(axis);
      if (width == 0) throw StatusError(absl::InvalidArgumentError("values has rows of no elements"));
      rows_.emplace(std::span<const std::int64_t>(indices.data(), n), elements_of<T>(values_),
                    static_cast<std::size_t>(width));
    }

    void check_shape(const tensorflow::TensorShape& variable) const override {
      bool fits = variable.dims() == values_.dims();
      for (int axis = 1; fits && axis < values_.dims(); ++axis) {
        fits = variable.dim_size(axis) == values_.dim_size(axis);
      }
      if (!fits) {
        throw StatusError(absl::InvalidArgumentError(
            absl::StrCat("the variable has shape ", variable.DebugString(), " and values has shape ",
                         values_.shape().DebugString(), ": their rows must be of the same shape")));
      }
      rows_->fit(static_cast<std::size_t>(variable.dim_size(0)));
    }

    void check_apart(std::span<const T> variable, const std::string& name) const override {
      tmflow::check_apart(variable, rows_->gradient().values, "values", name);
    }

    // The gradient has its size once check_shape has seen the variable.
    GradientDescent<T> update(T alpha) const { return {.alpha = alpha, .rows = &rows_->gradient()}; }

   private:
    const Tensor& indices_;
    const Tensor& values_;
    mutable std::optional<GatheredRows<T>> rows_;
  };
};

REGISTER_OP("TmflowApplyRowsGradientDescent")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("indices: int64")
    .Input("values: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Output("out: Ref(T)")
    .TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(reference_op_shapes<ByRows>)
    .Doc(R"(
var[indices] -= alpha * values in place, under `strategy`; an index that is given several times gets the sum. `variable` is
the number of var in the tracker.
)");

REGISTER_OP("TmflowResourceApplyRowsGradientDescent")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("indices: int64")
    .Input("values: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(resource_op_shapes<ByRows>)
    .Doc(R"(
Like TmflowApplyRowsGradientDescent, for a resource variable.
Readers of the variable share its memory and see later updates, as with a reference variable.
)");

REGISTER_OP("TmflowApplyRowsOptimiser")
    .Input("var: Ref(T)")
    .Input("alpha: T")
    .Input("indices: int64")
    .Input("values: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("slots: Ref(N * T)")
    .Output("out: Ref(T)")
    .TMFLOW_SLOT_ATTRIBUTES.TMFLOW_CONTAINER_ATTRIBUTE.TMFLOW_STRATEGY_ATTRIBUTES
    .SetShapeFn(reference_op_shapes<ByRows>)
    .Doc(R"(
A step of the optimiser on the rows `indices` of var and of its slots, as TmflowApplyOptimiser on the whole variable; an index
that is given several times gets the sum. The formulas are those of SparseApplyMomentum and SparseApplyAdagrad, and for Adam
those of the "lazy Adam" of TensorFlow Addons: TensorFlow's Adam decays the moments of all other rows too.
)");

REGISTER_OP("TmflowResourceApplyRowsOptimiser")
    .Input("var: resource")
    .Input("alpha: T")
    .Input("indices: int64")
    .Input("values: T")
    .Input("tracker: resource")
    .Input("worker: int32")
    .Input("slots: N * resource")
    .TMFLOW_SLOT_ATTRIBUTES.TMFLOW_STRATEGY_ATTRIBUTES.SetShapeFn(resource_op_shapes<ByRows>)
    .Doc("Like TmflowApplyRowsOptimiser, for resource variables.");

TMFLOW_REGISTER_APPLY("TmflowApplyRowsGradientDescent", "TmflowResourceApplyRowsGradientDescent", ByRows,
                      float);
TMFLOW_REGISTER_APPLY("TmflowApplyRowsGradientDescent", "TmflowResourceApplyRowsGradientDescent", ByRows,
                      double);
TMFLOW_REGISTER_APPLY("TmflowApplyRowsOptimiser", "TmflowResourceApplyRowsOptimiser", ByRows, float);
TMFLOW_REGISTER_APPLY("TmflowApplyRowsOptimiser", "TmflowResourceApplyRowsOptimiser", ByRows, double);

}  // namespace
}  // namespace tmflow::tf
