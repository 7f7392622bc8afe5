// The common part of the update ops: gradient descent under a strategy, on a variable of either kind, with
// operands of any kind.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strategy_attributes.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tmflow/core/checks.hpp"
#include "tracker_resource.hpp"
#include "variable_region.hpp"
#include "variable_shapes.hpp"

namespace tmflow::tf {

// Checks the common shapes of update ops: attributes and scalars.
inline absl::Status check_scalars(tensorflow::shape_inference::InferenceContext* c,
                                  std::initializer_list<int> scalars) {
  TF_RETURN_IF_ERROR(check_parameters(c));
  for (const int scalar : scalars) {
    tensorflow::shape_inference::ShapeHandle unused;
    TF_RETURN_IF_ERROR(c->WithRank(c->input(scalar), 0, &unused));
  }
  return absl::OkStatus();
}

// The shapes of the update ops that `Op` describes: on a reference variable, and on a resource variable.
template <class Op>
absl::Status reference_op_shapes(tensorflow::shape_inference::InferenceContext* c) {
  c->set_output(0, c->input(Op::kVariable));
  return Op::check_shapes(c, reference_shape(c, Op::kVariable));
}

template <class Op>
absl::Status resource_op_shapes(tensorflow::shape_inference::InferenceContext* c) {
  return Op::check_shapes(c, resource_shape(c, Op::kVariable));
}

inline constexpr char kRowsAreNotMeasured[] =
    "full measures count lost updates of whole variables, not of rows: use a tracker with the usual measures";

// The kernel of an update op. `Op` defines its operands: the type Op::Of<T> is constructed from the kernel's
// context, has the operands' checks, and `update(alpha)`. Op's constants kVariable, kAlpha, kTracker and
// kWorker are the indices of its inputs.
template <class Op, class T>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
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
    fetches_under_mutex_ = listed_strategy(strategy_).info.fetches_under_mutex;
  }

 protected:
  // Applies the operands to the variable of this state, which `region(operands)` describes.
  template <class MakeRegion>
  void apply(OpKernelContext* context, VariableState& state, MakeRegion region) {
    const auto alpha = finite_alpha<T>(scalar_input<T>(context, Op::kAlpha, "alpha"));
    const auto worker = scalar_input<std::int32_t>(context, Op::kWorker, "worker");
    const typename Op::template Of<T> operands(context);
    const auto resource = tracker_input(context, Op::kTracker);
    ThreadStats& stats = resource->tracker().stats(worker, variable_);
    VariableSlot& slot = resource->slot(variable_);
    VariableRegion<T>&& target = region(operands);
    auto& strategy = slot.strategy<T>(state, strategy_, parameters_);
    const GradientDescent<T> update = operands.update(alpha);
    if (update.rows != nullptr && resource->full()) {
      throw StatusError(absl::UnimplementedError(kRowsAreNotMeasured));
    }
    if (!fetches_under_mutex_) target.begin();
    if (update.rows != nullptr) return strategy.apply(target, update, stats);
    if (VariableMeasures* const measures = slot.measures(strategy_, parameters_, update.size())) {
      measures->around(update, worker,
                       [&](const auto& measured) { strategy.apply(target, measured, stats); });
    } else {
      strategy.apply(target, update, stats);
    }
  }

 private:
  std::string strategy_;
  std::vector<std::string> parameters_;
  int variable_ = 0;
  bool fetches_under_mutex_ = false;
};

template <class Op, class T>
class RefApplyOp final : public ApplyOp<Op, T> {
 public:
  explicit RefApplyOp(tensorflow::OpKernelConstruction* context) : ApplyOp<Op, T>(context) {
    OP_REQUIRES_OK(context, context->GetAttr("container", &container_));
  }

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto state = reference_state(context, container_, *context->input_ref_mutex(Op::kVariable));
      this->apply(context, *state, [&](const Operands<T>& operands) {
        return RefRegion<T>(context, Op::kVariable, &operands);
      });
      context->forward_ref_input_to_ref_output(Op::kVariable, 0);
    });
  }

 private:
  std::string container_;
};

template <class Op, class T>
class ResourceApplyOp final : public ApplyOp<Op, T> {
 public:
  using ApplyOp<Op, T>::ApplyOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto variable = variable_input(context, Op::kVariable);
      const auto state = ResourceStates::all().of(*variable);
      this->apply(context, *state, [&](const Operands<T>& operands) {
        return ResourceRegion<T>(context, *variable, state->memory(), Access::updates, &operands);
      });
    });
  }
};

}  // namespace tmflow::tf

// The kernels of the ops `ref` and `resource` of a kind, for variables of type T.
#define TMFLOW_REGISTER_APPLY(ref, resource, Op, T)                                             \
  REGISTER_KERNEL_BUILDER(Name(ref).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"),      \
                          RefApplyOp<Op, T>);                                                   \
  REGISTER_KERNEL_BUILDER(Name(resource).Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("T"), \
                          ResourceApplyOp<Op, T>)
