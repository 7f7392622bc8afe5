// The common part of the update ops: a step of gradient descent, or of an optimiser with slots, under a
// strategy, on a variable of either kind, with operands of any kind.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "slot_inputs.hpp"
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
  const auto variable = reference_shape(c, Op::kVariable);
  TF_RETURN_IF_ERROR(check_slot_inputs(c, Op::kWorker + 1, variable, reference_shape));
  return Op::check_shapes(c, variable);
}

template <class Op>
absl::Status resource_op_shapes(tensorflow::shape_inference::InferenceContext* c) {
  const auto variable = resource_shape(c, Op::kVariable);
  TF_RETURN_IF_ERROR(check_slot_inputs(c, Op::kWorker + 1, variable, resource_shape));
  return Op::check_shapes(c, variable);
}

// The kernel of an update op. `Op` defines its operands: the type Op::Of<T> is constructed from the kernel's
// context, has the operands' checks, and `update(alpha)`. Op's constants kVariable, kAlpha, kTracker and
// kWorker are the indices of its inputs; kWorker is the last but for the slots of an optimiser that has some.
template <class Op, class T>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("strategy", &strategy_));
    OP_REQUIRES_OK(context, context->GetAttr("parameters", &parameters_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
    std::string optimiser(name_of(optimiser_));
    if (context->HasAttr("optimiser")) OP_REQUIRES_OK(context, context->GetAttr("optimiser", &optimiser));
    std::vector<std::string> hyperparameters;
    if (context->HasAttr("hyperparameters")) {
      OP_REQUIRES_OK(context, context->GetAttr("hyperparameters", &hyperparameters));
    }
    std::optional<std::string> reason;
    try {
      optimiser_ = optimiser_named(optimiser);
      loop_.hyper = parse_hyperparameters<T>(optimiser_, hyperparameters);
      check_slots(optimiser_, strategy_, parameters_);
      reason = why_not(strategy_, parameters_);
    } catch (const std::invalid_argument& error) {
      reason = error.what();
    }
    OP_REQUIRES(
        context, !reason,
        absl::UnimplementedError(absl::StrCat("strategy ", strategy_, " cannot run here: ", *reason)));
    const Parameters values = parameters_of(strategy_, parameters_);
    const auto under_mutex = listed_strategy(strategy_).info.fetches_under_mutex;
    fetches_under_mutex_ = under_mutex != nullptr && under_mutex(values);
    if (optimiser_ != Optimiser::sgd) {
      loop_.kernel = find_slot_kernel<T>(optimiser_, values.text("optimisation"));
    }
  }

 protected:
  // Applies the operands to the variable of this state and mutex, which `region(operands)` describes; and to
  // its slots, each of which `slot(input, name)` describes.
  template <class MakeRegion, class MakeSlot>
  void apply(OpKernelContext* context, VariableState& state, const Mutex& of_variable, MakeRegion region,
             MakeSlot slot) {
    const auto alpha = finite_alpha<T>(scalar_input<T>(context, Op::kAlpha, "alpha"));
    const auto named = scalar_input<std::int32_t>(context, Op::kWorker, "worker");
    const typename Op::template Of<T> operands(context);
    const auto resource = tracker_input(context, Op::kTracker);
    const WorkerOfCall worker(resource->leases(), named);
    ThreadStats& stats = resource->tracker().stats(worker.number(), variable_);
    TrackedVariable& tracked = resource->tracked(variable_);
    const bool has_slots = optimiser_ != Optimiser::sgd;
    if (resource->full() && resource->has_slots() != has_slots) {
      throw StatusError(absl::InvalidArgumentError(absl::StrCat(
          "the tracker with full measures is for updates ", has_slots ? "without" : "with",
          " slots of an optimiser (has_slots), and this one has ", has_slots ? "some" : "none")));
    }
    std::optional<SlotsOfUpdate<T>> slots;
    if (has_slots) {
      slots.emplace(operands, of_variable, Op::kWorker + 1, slots_of(optimiser_), loop_, slot);
    }
    VariableRegion<T>&& target = region(slots ? static_cast<const Operands<T>&>(*slots) : operands);
    auto& strategy = tracked.strategy<T>(state, strategy_, parameters_);
    GradientDescent<T> update = operands.update(alpha);
    if (slots) {
      update.slots = &slots->slots();
      target.set_slot_mutexes(slots->mutexes());
    }
    if (!fetches_under_mutex_) target.begin();
    if (VariableMeasures* const measures = measures_of(tracked, target, update)) {
      measures->around(update, worker.number(),
                       [&](const auto& measured) { strategy.apply(target, measured, stats); });
    } else {
      strategy.apply(target, update, stats);
    }
  }

 private:
  // The measures for an update of the region; null if nothing is measured.
  VariableMeasures* measures_of(TrackedVariable& tracked, VariableRegion<T>& target,
                                const GradientDescent<T>& update) {
    const RowGradient<T>* const rows = update.rows;
    if (rows == nullptr) {
      return tracked.measures(strategy_, parameters_, 0, update.size(), [&] { return update.size(); });
    }
    const std::size_t end_row = rows->rows.empty() ? 0 : static_cast<std::size_t>(rows->rows.back()) + 1;
    return tracked.measures(strategy_, parameters_, rows->width, end_row * rows->width, [&] {
      // An update that has begun knows its size, and must not wait for the mutex: its holder may wait for it.
      if (update.size() == 0) target.inspect();
      return update.size();
    });
  }

  std::string strategy_;
  std::vector<std::string> parameters_;
  int variable_ = 0;
  Optimiser optimiser_ = Optimiser::sgd;
  Slots<T> loop_{};  // without memory; of an optimiser that has slots
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
      Mutex& mutex = *context->input_ref_mutex(Op::kVariable);
      const auto state = reference_state(context, container_, mutex);
      this->apply(
          context, *state, mutex,
          [&](const Operands<T>& operands) { return RefRegion<T>(context, Op::kVariable, &operands); },
          [&](int input, const std::string& name) { return reference_slot<T>(context, input, name); });
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
      this->apply(
          context, *state, *variable->mu(),
          [&](const Operands<T>& operands) {
            return ResourceRegion<T>(context, *variable, state->memory(), Access::updates, &operands);
          },
          [&](int input, const std::string& name) { return resource_slot<T>(context, input, name); });
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
