// A NumPy array of either type as a variable, with its mutex, its strategies and its counters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "memory_claim.hpp"
#include "tmflow/core/checks.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/tracker.hpp"
#include "tmflow/measure/worker_leases.hpp"

namespace tmflow::python {

// Any number of threads may apply updates at the same time, each as a worker of its own, or all as any worker
// (WorkerOfCall::kAnyWorker). Throws std::invalid_argument for memory that is
// not suitable for updates (checks.hpp), before anything is changed.
template <class T>
class Variable {
 public:
  Variable(std::span<T> memory, int workers)
      : claim_(memory), region_(memory), counts_(workers, 1), leases_(workers) {
    check_aligned(memory, "array");
  }

  void apply(const std::string& strategy, const std::vector<std::string>& parameters,
             const GradientDescent<T>& update, int worker) {
    if (update.dense != nullptr) {
      check(update.dense->input, "input");
      check(update.dense->output, "output_gradient");
    } else if (update.rows != nullptr) {
      check(update.rows->values, "values");
    } else {
      check(update.delta, "delta");
    }
    const WorkerOfCall of_call(leases_, worker);
    object_of(strategy, parameters).apply(region_, update, counts_.stats(of_call.number(), 0));
  }

  // Copies the variable through the strategy. Throws std::invalid_argument if it has no consistent read.
  void read(const std::string& strategy, const std::vector<std::string>& parameters, std::span<T> into,
            int worker) {
    check(into, "into");
    const WorkerOfCall of_call(leases_, worker);
    object_of(strategy, parameters).read(region_, {.into = into}, counts_.stats(of_call.number(), 0));
  }

  // Brings the array up to date, if a strategy keeps the variable elsewhere. Must be called while no thread
  // updates.
  void settle() {
    const std::lock_guard held(strategies_mutex_);
    for (const auto& [name, object] : objects_) object->settle(region_);
  }

  // The array was assigned: every strategy starts from it. Must be called while no thread updates.
  void restart() {
    const std::lock_guard held(strategies_mutex_);
    for (const auto& [name, object] : objects_) object->restart(region_);
  }

  int workers() const { return counts_.workers(); }
  const ThreadStats& stats(int worker) { return counts_.stats(worker, 0); }

 private:
  using Region = ArrayRegion<T>;

  void check(std::span<const T> operand, const char* name) {
    check_aligned(operand, name);
    check_apart<T>(region_.memory(Holding::nothing), operand, name);
  }

  // The strategy's object for this variable and these parameters, created at the first use. Two spellings of
  // the same parameters share one object, because two would have two mutexes.
  AnyStrategy<Region>& object_of(const std::string& strategy, const std::vector<std::string>& parameters) {
    const std::lock_guard held(strategies_mutex_);
    AnyStrategy<Region>*& found = as_written_[{strategy, parameters}];
    if (found == nullptr) {
      auto& object = objects_[{strategy, parameters_of(strategy, parameters).values()}];
      if (object == nullptr) object = make_strategy<Region>(strategy, parameters);
      found = object.get();
    }
    return *found;
  }

  const MemoryClaim claim_;
  Region region_;
  Tracker counts_;
  WorkerLeases<> leases_;
  std::mutex strategies_mutex_;
  std::map<std::pair<std::string, Parameters::Values>, std::unique_ptr<AnyStrategy<Region>>> objects_;
  std::map<std::pair<std::string, std::vector<std::string>>, AnyStrategy<Region>*> as_written_;
};

}  // namespace tmflow::python
