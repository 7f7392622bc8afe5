// The slots of an optimiser as variables of TensorFlow: the last inputs of an update op.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tmflow/core/slots.hpp"
#include "variable_region.hpp"
#include "variable_state.hpp"

// For an op that changes slots: how many, the rule that does, and its hyperparameters, as "name=number" where
// they are not TensorFlow's.
#define TMFLOW_SLOT_ATTRIBUTES                            \
  Attr("N: int >= 1")                                     \
      .Attr("optimiser: {'momentum', 'adagrad', 'adam'}") \
      .Attr("hyperparameters: list(string) = []")

namespace tmflow::tf {

// Checks the slots of an op, its inputs from `first` on: their number, and that they have the shape of the
// variable; `shape_of(c, input)` is the shape of a variable in an input. Does nothing for an op without
// slots.
template <class ShapeOf>
absl::Status check_slot_inputs(tensorflow::shape_inference::InferenceContext* c, int first,
                               tensorflow::shape_inference::ShapeHandle variable, const ShapeOf& shape_of) {
  const int given = c->num_inputs() - first;
  if (given == 0) return absl::OkStatus();
  std::string optimiser;
  TF_RETURN_IF_ERROR(c->GetAttr("optimiser", &optimiser));
  std::vector<std::string> hyperparameters;
  TF_RETURN_IF_ERROR(c->GetAttr("hyperparameters", &hyperparameters));
  try {
    parse_hyperparameters<double>(optimiser_named(optimiser), hyperparameters);
  } catch (const std::invalid_argument& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (const auto slots = static_cast<int>(slots_of(optimiser_named(optimiser))); given != slots) {
    return absl::InvalidArgumentError(absl::StrCat("optimiser ", optimiser, " has ", slots,
                                                   slots == 1 ? " slot" : " slots", ", not ", given));
  }
  for (int input = first; input < c->num_inputs(); ++input) {
    TF_RETURN_IF_ERROR(c->Merge(variable, shape_of(c, input), &variable));
  }
  return absl::OkStatus();
}

// One slot for the duration of an update. A reference to a resource variable and to its state; null for a
// reference variable, which the kernel's context holds.
template <class T>
struct SlotInput {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable{};
  VariableStatePtr state{};
  std::unique_ptr<VariableRegion<T>> region{};  // last, because it refers to both
};

template <class T>
SlotInput<T> reference_slot(OpKernelContext* context, int input, const std::string& name) {
  return {.region = std::make_unique<RefRegion<T>>(context, input, nullptr, name)};
}

template <class T>
SlotInput<T> resource_slot(OpKernelContext* context, int input, const std::string& name) {
  SlotInput<T> slot{.variable = variable_input(context, input)};
  slot.state = ResourceStates::all().of(*slot.variable);
  slot.region = std::make_unique<ResourceRegion<T>>(context, *slot.variable, slot.state->memory(),
                                                    Access::updates, nullptr, name);
  return slot;
}

// The slots of an update, fetched; and its operands, to which they add the checks of the slots.
//
// Each slot begins to write before the variable does, and keeps its memory as long as this object lives. All
// updates of a variable begin their slots in one order, and a slot belongs to one variable, so they do not
// wait for each other in a circle (MemoryOfVariable::begin_writing waits for updates that have begun). The
// mutexes of the slots are free while the strategy runs: it protects the elements of the slots with those of
// the variable, and only `htm` may take these mutexes too.
template <class T>
class SlotsOfUpdate final : public Operands<T> {
 public:
  // `slot(input, name)` is the slot in an input of the kernel, `of_variable` the mutex of the variable, and
  // `loop` the kernel of the optimiser with its hyperparameters, without memory.
  // Throws StatusError for an uninitialised slot or one of another type, and if a slot is the variable or
  // another slot: it would begin to write twice, and the second time might wait for the first for ever.
  template <class MakeSlot>
  SlotsOfUpdate(const Operands<T>& operands, const Mutex& of_variable, int first, std::size_t count,
                const Slots<T>& loop, const MakeSlot& slot)
      : operands_(operands), slots_(loop) {
    inputs_.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      inputs_.push_back(slot(first + static_cast<int>(i), name_of(i)));
      check_distinct(of_variable, i);
    }
    for (std::size_t i = 0; i < count; ++i) {
      inputs_[i].region->begin();
      memory_[i] = inputs_[i].region->memory(Holding::nothing);
      slots_.memory[i] = memory_[i].data();
      mutexes_.push_back(inputs_[i].region->mutex());
    }
  }

  void check_shape(const tensorflow::TensorShape& variable) const override {
    operands_.check_shape(variable);
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (const auto& shape = inputs_[i].region->shape(); shape != variable) {
        throw StatusError(absl::InvalidArgumentError(
            absl::StrCat("the variable has shape ", variable.DebugString(), " and ", name_of(i),
                         " of its optimiser has shape ", shape.DebugString(), ": they must be the same")));
      }
    }
  }

  void check_apart(std::span<const T> variable, const std::string& name) const override {
    operands_.check_apart(variable, name);
    for (std::size_t i = 0; i < inputs_.size(); ++i) operands_.check_apart(memory_[i], name_of(i));
  }

  const Slots<T>& slots() const noexcept { return slots_; }
  // Of the variables of the slots, in their order.
  std::span<ForeignMutex> mutexes() noexcept { return mutexes_; }

 private:
  void check_distinct(const Mutex& of_variable, std::size_t number) const {
    const auto mutex_of = [&](std::size_t i) { return &inputs_[i].region->variable_mutex(); };
    bool is_other = mutex_of(number) == &of_variable;
    for (std::size_t before = 0; before < number; ++before) is_other |= mutex_of(before) == mutex_of(number);
    if (!is_other) return;
    throw StatusError(absl::InvalidArgumentError(absl::StrCat(
        name_of(number), " is the variable or another slot: each slot must be a variable of its own")));
  }

  static std::string name_of(std::size_t number) { return absl::StrCat("slot ", number); }

  const Operands<T>& operands_;
  std::vector<SlotInput<T>> inputs_;
  std::vector<ForeignMutex> mutexes_;
  std::array<std::span<T>, kMostSlots> memory_;
  Slots<T> slots_;
};

}  // namespace tmflow::tf
