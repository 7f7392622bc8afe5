// The ops that tell a strategy that its variable is about to be read. Only emulated transactions want to
// know: real ones see the reader itself.
#include <string>
#include <vector>

#include "strategy_attributes.hpp"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tracker_resource.hpp"
#include "variable_region.hpp"

namespace tmflow::tf {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;

enum Input { kVariable, kTracker };

REGISTER_OP("TmflowNoteRead")
    .Input("var: Ref(T)")
    .Input("tracker: resource")
    .Attr("T: {float, double}")
    .Attr("strategy: {" + strategy_names("'") + "}")
    .Attr("parameters: list(string) = []")
    .Attr("variable: int >= 0")
    .SetIsStateful()
    .SetShapeFn(check_parameters)
    .Doc("The whole of var is about to be read. `strategy` and the rest as of TmflowApplyGradientDescent.");

REGISTER_OP("TmflowResourceNoteRead")
    .Input("var: resource")
    .Input("tracker: resource")
    .Attr("T: {float, double}")
    .Attr("strategy: {" + strategy_names("'") + "}")
    .Attr("parameters: list(string) = []")
    .Attr("variable: int >= 0")
    .SetIsStateful()
    .SetShapeFn(check_parameters)
    .Doc(
        "The whole of var is about to be read. `strategy` and the rest as of "
        "TmflowResourceApplyGradientDescent.");

template <class T>
class NoteReadOp : public OpKernel {
 public:
  explicit NoteReadOp(OpKernelConstruction* context) : OpKernel(context) {
    OP_REQUIRES_OK(context, context->GetAttr("strategy", &strategy_));
    OP_REQUIRES_OK(context, context->GetAttr("parameters", &parameters_));
    OP_REQUIRES_OK(context, context->GetAttr("variable", &variable_));
  }

 protected:
  // Notes that somebody reads the variable that `region(slot)` describes.
  template <class MakeRegion>
  void note(OpKernelContext* context, MakeRegion region) {
    const auto resource = tracker_input(context, kTracker);
    resource->tracker().stats(0, variable_);  // throws for a variable out of range
    VariableSlot& slot = resource->slot(variable_);
    VariableRegion<T>&& target = region(slot);
    slot.strategy<T>(strategy_, parameters_, target.mutex()).note_read(target);
  }

 private:
  std::string strategy_;
  std::vector<std::string> parameters_;
  int variable_ = 0;
};

template <class T>
class RefNoteReadOp final : public NoteReadOp<T> {
 public:
  using NoteReadOp<T>::NoteReadOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      this->note(context, [&](VariableSlot&) { return RefRegion<T>(context, kVariable, nullptr); });
    });
  }
};

template <class T>
class ResourceNoteReadOp final : public NoteReadOp<T> {
 public:
  using NoteReadOp<T>::NoteReadOp;

  void Compute(OpKernelContext* context) override {
    compute(context, [&] {
      const auto variable = variable_input(context, kVariable);
      this->note(context, [&](VariableSlot& slot) {
        return ResourceRegion<T>(context, *variable, slot.own(), nullptr);
      });
    });
  }
};

#define TMFLOW_REGISTER(T)                                                                          \
  REGISTER_KERNEL_BUILDER(Name("TmflowNoteRead").Device(DEVICE_CPU).TypeConstraint<T>("T"),         \
                          RefNoteReadOp<T>);                                                        \
  REGISTER_KERNEL_BUILDER(Name("TmflowResourceNoteRead").Device(DEVICE_CPU).TypeConstraint<T>("T"), \
                          ResourceNoteReadOp<T>)

TMFLOW_REGISTER(float);
TMFLOW_REGISTER(double);
#undef TMFLOW_REGISTER

}  // namespace
}  // namespace tmflow::tf
