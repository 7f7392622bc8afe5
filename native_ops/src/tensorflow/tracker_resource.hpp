// The tracker as a TensorFlow resource, with its state for each variable.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "status_error.hpp"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tmflow/measure/tracker.hpp"
#include "tmflow/measure/variable_measures.hpp"
#include "tmflow/measure/worker_leases.hpp"
#include "variable_state.hpp"

namespace tmflow::tf {

// An index of a tracker: the variable that is counted under it, and its measures.
class TrackedVariable {
 public:
  // `measured_workers`: the number of workers if losses are measured; else 0. `has_slots`: whether its
  // updates change slots of an optimiser.
  TrackedVariable(int measured_workers, bool has_slots)
      : measured_workers_(measured_workers), has_slots_(has_slots) {}

  // The strategy object of the variable with this state. The index holds a use of it from the first call on,
  // which determines the variable; after that variable is destroyed, another one may use the index. Throws
  // StatusError for any other variable, and for another strategy than the variable's.
  template <class T>
  AnyStrategy<ForeignRegion<T>>& strategy(VariableState& state, const std::string& name,
                                          const std::vector<std::string>& parameters) {
    if (counted_.load(std::memory_order_acquire) != state.number()) count<T>(state, name, parameters);
    return state.strategy<T>(name, parameters);
  }

  // The measures for an update of the variable; null if nothing is measured. `width`: the length of a row for
  // an update of rows, else 0. `elements()`: the size of the variable; the first use and those of the whole
  // variable call it. `end`: where the update ends. Throws StatusError if the variable had another size
  // before, or if the first use was of the whole variable and this one is of rows, or the other way round.
  template <class Elements>
  VariableMeasures* measures(const std::string& strategy, const std::vector<std::string>& parameters,
                             std::size_t width, std::size_t end, const Elements& elements) {
    if (measured_workers_ == 0) return nullptr;
    create_measures(strategy, parameters, width, elements);
    if (measures_->by_rows() != (width != 0)) {
      throw StatusError(absl::InvalidArgumentError(
          "full measures need updates of whole variables, or updates of rows: this variable has had some of "
          "each, or it was read before its rows were updated"));
    }
    check_size(width == 0 ? measures_->elements() == elements() : end <= measures_->elements());
    return measures_.get();
  }

  // The measures for a read of the whole variable, which has that many elements; null if nothing is measured,
  // or if updates change rows. Throws StatusError if it had another number of elements before.
  VariableMeasures* measures_of_read(const std::string& strategy, const std::vector<std::string>& parameters,
                                     std::size_t elements) {
    if (measured_workers_ == 0) return nullptr;
    create_measures(strategy, parameters, 0, [=] { return elements; });
    check_size(measures_->elements() == elements);
    return measures_->by_rows() ? nullptr : measures_.get();
  }

  // The same after the variable has been updated or read; null before. Must be called while no thread does
  // either.
  VariableMeasures* measures() { return measures_.get(); }

  // Gives up the use of the variable's strategy, and the measures, which are of that strategy. Must be called
  // while no thread updates or reads the variable.
  void release() {
    const std::scoped_lock guard(mutex_);
    use_.reset();
    counted_.store(0, std::memory_order_relaxed);
    measures_.reset();
    measured_ = std::make_unique<std::once_flag>();
  }

 private:
  template <class Elements>
  void create_measures(const std::string& strategy, const std::vector<std::string>& parameters,
                       std::size_t width, const Elements& elements) {
    std::call_once(*measured_, [&] {
      measures_ = std::make_unique<VariableMeasures>(strategy, parameters, elements(), measured_workers_,
                                                     width, has_slots_, /*watches_rows=*/false);
    });
  }

  void check_size(bool fits) const {
    if (fits) return;
    throw StatusError(absl::InvalidArgumentError(
        absl::StrCat("the variable had ", measures_->elements(),
                     " elements before: with full measures its shape must not change")));
  }

  template <class T>
  void count(VariableState& state, const std::string& name, const std::vector<std::string>& parameters) {
    const std::scoped_lock guard(mutex_);
    const std::uint64_t counted = counted_.load(std::memory_order_relaxed);
    if (counted == state.number()) return;
    if (counted != 0 && !use_->variable_is_gone.load(std::memory_order_acquire)) {
      throw StatusError(absl::InvalidArgumentError(
          "the tracker already counts another variable under this number: within a tracker "
          "each variable needs a different number"));
    }
    use_ = state.use<T>(name, parameters);
    counted_.store(state.number(), std::memory_order_release);
  }

  std::mutex mutex_;
  std::shared_ptr<const StrategyUse> use_;  // guarded by mutex_
  std::atomic<std::uint64_t> counted_{0};   // the number of its state; 0 at first
  const int measured_workers_;
  const bool has_slots_;
  std::unique_ptr<std::once_flag> measured_ = std::make_unique<std::once_flag>();  // new after each release
  std::unique_ptr<VariableMeasures> measures_;
};

class TrackerResource final : public tensorflow::ResourceBase {
 public:
  // `full`: losses are measured too, and locks are timed. `has_slots`: updates change slots of an optimiser.
  TrackerResource(int workers, int variables, bool full, bool has_slots)
      : tracker_(workers, variables), leases_(workers), full_(full), has_slots_(has_slots) {
    for (int variable = 0; variable < variables; ++variable) {
      tracked_.emplace_back(full ? workers : 0, has_slots);
      for (int worker = 0; worker < workers; ++worker) tracker_.stats(worker, variable).time_locks(full);
    }
  }

  // Discards all counts. Must be called while no thread updates or reads.
  void reset() {
    tracker_.reset();
    for (TrackedVariable& variable : tracked_) {
      if (variable.measures() != nullptr) variable.measures()->reset();
    }
  }

  // Gives up the strategies of the variables: until the next update through this tracker they may be updated
  // under others. Must be called while no thread updates or reads.
  void release() {
    for (TrackedVariable& variable : tracked_) variable.release();
  }

  Tracker& tracker() { return tracker_; }
  WorkerLeases<>& leases() { return leases_; }
  bool full() const { return full_; }
  bool has_slots() const { return has_slots_; }
  TrackedVariable& tracked(int variable) { return tracked_.at(static_cast<std::size_t>(variable)); }

  std::string DebugString() const override { return "a tmflow tracker"; }

 private:
  Tracker tracker_;
  WorkerLeases<> leases_;
  const bool full_, has_slots_;
  std::deque<TrackedVariable> tracked_;
};

// The tracker in input `index` of a kernel: a pointer in the handle, without a look-up by name.
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
