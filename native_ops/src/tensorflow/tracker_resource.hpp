// The tracker as a TensorFlow resource, and what it keeps for each variable.
#pragma once

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "status_error.hpp"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tmflow/registry.hpp"
#include "tmflow/tracker.hpp"
#include "variable_region.hpp"

namespace tmflow::tf {

// What belongs to one variable of a tracker, whichever kernels update it.
class VariableSlot {
 public:
  // The strategy object of the variable whose mutex is `mutex`; the first call decides variable, type,
  // strategy and parameters. Throws StatusError if this call does not agree with the first.
  template <class T>
  AnyStrategy<VariableRegion<T>>& strategy(const std::string& name,
                                           const std::vector<std::string>& parameters, const Mutex& mutex) {
    std::call_once(bound_, [&] {
      strategy_ = make_strategy<VariableRegion<T>>(name, parameters);
      name_ = name;
      parameters_ = parameters;
      mutex_ = &mutex;
    });
    auto* const held = std::get_if<Owned<T>>(&strategy_);
    if (held == nullptr || mutex_ != &mutex || name_ != name || parameters_ != parameters) {
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat("the tracker counts another variable or another strategy (", name_,
                       ") under this number: within a tracker each variable has a number, a type and a "
                       "strategy of its own")));
    }
    return **held;
  }

  // The buffer that the variable owns; see ResourceRegion.
  Tensor& own() { return own_; }

 private:
  template <class T>
  using Owned = std::unique_ptr<AnyStrategy<VariableRegion<T>>>;

  std::once_flag bound_;
  std::variant<Owned<float>, Owned<double>> strategy_;
  std::string name_;
  std::vector<std::string> parameters_;
  const Mutex* mutex_ = nullptr;
  Tensor own_;
};

class TrackerResource final : public tensorflow::ResourceBase {
 public:
  TrackerResource(int workers, int variables)
      : tracker_(workers, variables), slots_(static_cast<std::size_t>(variables)) {}

  Tracker& tracker() { return tracker_; }
  VariableSlot& slot(int variable) { return slots_.at(static_cast<std::size_t>(variable)); }

  std::string DebugString() const override { return "a tmflow tracker"; }

 private:
  Tracker tracker_;
  std::deque<VariableSlot> slots_;
};

// The tracker in input `index` of a kernel: a pointer in the handle, no look-up by name.
inline tensorflow::core::RefCountPtr<TrackerResource> tracker_input(OpKernelContext* context, int index) {
  tensorflow::core::RefCountPtr<TrackerResource> tracker;
  throw_if_error(tensorflow::LookupResource(context, tensorflow::HandleFromInput(context, index), &tracker));
  return tracker;
}

// The scalar in input `index` of a kernel.
template <class T>
T scalar_input(OpKernelContext* context, int index, const char* name) {
  const Tensor& tensor = context->input(index);
  if (!tensorflow::TensorShapeUtils::IsScalar(tensor.shape())) {
    throw StatusError(absl::InvalidArgumentError(
        absl::StrCat(name, " must be a scalar, and has shape ", tensor.shape().DebugString())));
  }
  return tensor.scalar<T>()();
}

}  // namespace tmflow::tf
