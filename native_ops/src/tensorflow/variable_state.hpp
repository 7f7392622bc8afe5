// The state of a variable for its lifetime, shared by all its updaters: its strategy object, and its memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <variant>
#include <vector>

#include "own_memory.hpp"
#include "status_error.hpp"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tmflow/core/registry.hpp"
#include "variable_region.hpp"

namespace tmflow::tf {

// Held by each index of a tracker under which a variable is updated. The variable keeps its strategy as long
// as one such index exists.
struct StrategyUse {
  std::atomic<bool> variable_is_gone{false};
};

// Contract: all updates of a variable go through one strategy object, so its consistency also holds between
// trackers, graphs, sessions and the indices of a tracker. The first use determines strategy and parameters;
// others are refused as long as a tracker that used them lives. After that the next use determines them
// again, and starts from the variable's memory.
//
// Memory ordering: strategy_, name_ and parameters_ change under mutex_, and only while no use is held. The
// holder of a use got it under mutex_ after that, so it may read them without the mutex.
class VariableState final : public tensorflow::ResourceBase {
 public:
  VariableState() = default;
  ~VariableState() override {
    if (const auto use = use_.lock()) use->variable_is_gone.store(true, std::memory_order_release);
  }

  // No two states of this process ever have the same number; no number is 0.
  std::uint64_t number() const { return number_; }

  // A use of the strategy, whose object is created if there is none. Throws StatusError if another one, or
  // one with other parameters, is in use.
  template <class T>
  std::shared_ptr<const StrategyUse> use(const std::string& name,
                                         const std::vector<std::string>& parameters) {
    const tensorflow::mutex_lock guard(mutex_);
    if (auto held = use_.lock()) {
      strategy<T>(name, parameters);
      return held;
    }
    strategy_ = make_strategy<ForeignRegion<T>>(name, parameters);
    name_ = name;
    parameters_ = parameters;
    const auto made = std::make_shared<StrategyUse>();
    use_ = made;
    return made;
  }

  // The strategy object, for a holder of a use of it. Throws StatusError if it is not this one.
  template <class T>
  AnyStrategy<ForeignRegion<T>>& strategy(const std::string& name,
                                          const std::vector<std::string>& parameters) const {
    const auto* const held = std::get_if<Owned<T>>(&strategy_);
    if (held == nullptr || name_ != name || parameters_ != parameters) {
      throw StatusError(absl::InvalidArgumentError(absl::StrCat(
          "the variable is updated under strategy ", described(name_, parameters_),
          ", and cannot be updated under strategy ", described(name, parameters),
          " at the same time: all updates of a variable must have the same type, strategy and parameters")));
    }
    return **held;
  }

  MemoryOfVariable& memory() { return memory_; }

  std::string DebugString() const override { return "what tmflow keeps for a variable"; }

 private:
  template <class T>
  using Owned = std::unique_ptr<AnyStrategy<ForeignRegion<T>>>;

  static std::string described(const std::string& name, const std::vector<std::string>& parameters) {
    std::string text = name;
    for (const std::string& parameter : parameters) absl::StrAppend(&text, " ", parameter);
    return text;
  }

  static std::uint64_t next_number() {
    static std::atomic<std::uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }

  const std::uint64_t number_ = next_number();
  tensorflow::mutex mutex_;
  std::variant<Owned<float>, Owned<double>> strategy_;
  std::string name_;
  std::vector<std::string> parameters_;
  std::weak_ptr<StrategyUse> use_;
  MemoryOfVariable memory_;
};

using VariableStatePtr = tensorflow::core::RefCountPtr<VariableState>;

// The states of the process's resource variables, by address. TensorFlow reports the end of a variable before
// its memory is free for another one, so an address identifies one variable. (The resource manager is not
// sufficient: it does not contain the variables of eager mode, and a variable that is destroyed and created
// again has the name of the first.)
class ResourceStates {
 public:
  static ResourceStates& all() {
    static auto& states = *new ResourceStates;  // outlives every variable
    return states;
  }

  // The state of a variable to which the caller holds a reference.
  VariableStatePtr of(tensorflow::Var& variable) {
    {
      const tensorflow::tf_shared_lock reading(mutex_);
      if (const auto found = states_.find(&variable); found != states_.end()) {
        return found->second.state.GetNewRef();
      }
    }
    const tensorflow::mutex_lock writing(mutex_);
    Entry& entry = states_[&variable];
    if (!entry.state) {
      entry.state.reset(new VariableState);
      entry.watch = Watch(&variable, [this, gone = &variable] { forget(gone); });
    }
    return entry.state.GetNewRef();
  }

 private:
  using Watch = tensorflow::core::WeakPtr<tensorflow::Var>;
  struct Entry {
    VariableStatePtr state;
    Watch watch;
  };

  void forget(const tensorflow::Var* gone) {
    Entry last;  // destroyed after the mutex was released
    const tensorflow::mutex_lock writing(mutex_);
    const auto found = states_.find(gone);
    std::swap(last, found->second);
    states_.erase(found);
  }

  tensorflow::mutex mutex_;
  std::unordered_map<const tensorflow::Var*, Entry> states_;
};

// The state of the reference variable with this mutex. It is in the resource manager, in the container of the
// variable, so it is destroyed with the variable: a container is emptied as a whole. The operation has the
// container's name from the variable's operation.
inline VariableStatePtr reference_state(OpKernelContext* context, const std::string& container,
                                        const Mutex& mutex) {
  tensorflow::ResourceMgr& manager = *context->resource_manager();
  VariableState* state = nullptr;
  throw_if_error(manager.LookupOrCreate<VariableState>(
      container.empty() ? manager.default_container() : container,
      absl::StrCat(absl::Hex(reinterpret_cast<std::uintptr_t>(&mutex))), &state, [](VariableState** made) {
        *made = new VariableState;
        return absl::OkStatus();
      }));
  return VariableStatePtr(state);
}

}  // namespace tmflow::tf
