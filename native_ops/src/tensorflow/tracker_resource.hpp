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
#include "tmflow/variable_measures.hpp"
#include "variable_region.hpp"

namespace tmflow::tf {

// What belongs to one variable of a tracker, whichever kernels update it.
class VariableSlot {
 public:
  // `measured_workers`: how many workers there are, if what becomes of their updates is measured; else 0.
  explicit VariableSlot(int measured_workers) : measured_workers_(measured_workers) {}

  // The strategy object of the variable whose mutex is `mutex`; the first call decides variable, type,
  // strategy and parameters. Throws StatusError if this call does not agree with the first.
  template <class T>
  AnyStrategy<ForeignRegion<T>>& strategy(const std::string& name, const std::vector<std::string>& parameters,
                                          const Mutex& mutex) {
    std::call_once(bound_, [&] {
      strategy_ = make_strategy<ForeignRegion<T>>(name, parameters);
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

  // What is measured of the variable, which has so many elements; null if nothing is. After `strategy`.
  // Throws StatusError if it had another number of them before.
  VariableMeasures* measures(std::size_t elements) {
    if (measured_workers_ == 0) return nullptr;
    std::call_once(measured_, [&] {
      measures_ = std::make_unique<VariableMeasures>(name_, parameters_, elements, measured_workers_);
    });
    if (measures_->elements() != elements) {
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat("the variable has ", elements, " elements and had ", measures_->elements(),
                       " before: with full measures it must keep its shape")));
    }
    return measures_.get();
  }

  // The same, once the variable has been updated or read; null before. While nobody does either.
  VariableMeasures* measures() { return measures_.get(); }

  // The buffer that the variable owns; see ResourceRegion.
  Tensor& own() { return own_; }

 private:
  template <class T>
  using Owned = std::unique_ptr<AnyStrategy<ForeignRegion<T>>>;

  std::once_flag bound_;
  std::variant<Owned<float>, Owned<double>> strategy_;
  std::string name_;
  std::vector<std::string> parameters_;
  const Mutex* mutex_ = nullptr;
  const int measured_workers_;
  std::once_flag measured_;
  std::unique_ptr<VariableMeasures> measures_;
  Tensor own_;
};

class TrackerResource final : public tensorflow::ResourceBase {
 public:
  // `full`: what becomes of the updates is measured too, and locks are timed.
  TrackerResource(int workers, int variables, bool full) : tracker_(workers, variables) {
    for (int variable = 0; variable < variables; ++variable) {
      slots_.emplace_back(full ? workers : 0);
      for (int worker = 0; worker < workers; ++worker) tracker_.stats(worker, variable).time_locks(full);
    }
  }

  // Forgets all counts. While nobody updates or reads.
  void reset() {
    tracker_.reset();
    for (VariableSlot& slot : slots_) {
      if (slot.measures() != nullptr) slot.measures()->reset();
    }
  }

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
