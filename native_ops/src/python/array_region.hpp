// A NumPy array of either type as a variable, with its mutex, its strategies and its counters.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "memory_claim.hpp"
#include "tmflow/core/checks.hpp"
#include "tmflow/core/registry.hpp"
#include "tmflow/measure/tracker.hpp"
#include "tmflow/measure/variable_measures.hpp"
#include "tmflow/measure/worker_leases.hpp"

namespace tmflow::python {

// Any number of threads may apply updates at the same time, each as a worker of its own, or all as any worker
// (WorkerOfCall::kAnyWorker). Throws std::invalid_argument for memory that is
// not suitable for updates (checks.hpp), before anything is changed.
template <class T>
class Variable {
 public:
  // `full`: lost updates and torn reads are counted and locks are timed; then all updates and reads name one
  // strategy. `width`: the length of a row if every update is one of rows, else 0; only full measures need
  // it.
  Variable(std::span<T> memory, int workers, bool full, std::size_t width)
      : claim_(memory), region_(memory), counts_(workers, 1), leases_(workers), full_(full), width_(width) {
    check_aligned(memory, "array");
    for (int worker = 0; worker < workers; ++worker) counts_.stats(worker, 0).time_locks(full);
  }

  // Creates what the strategy needs, which the first update or read does otherwise.
  void prepare(const std::string& strategy, const std::vector<std::string>& parameters) {
    measures_of(strategy, parameters, object_of(strategy, parameters));
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
    if (full_ && (update.rows != nullptr) != (width_ != 0)) {
      throw std::invalid_argument(width_ != 0
                                      ? "full measures were asked for updates of rows, but this one "
                                        "changes the whole array"
                                      : "full measures were asked for updates of the whole array, but "
                                        "this one changes rows");
    }
    const Call call(*this, strategy, parameters, worker);
    if (call.measures == nullptr) return call.object.apply(region_, update, call.stats);
    call.measures->around(update, call.worker.number(), [&](const GradientDescent<T>& measured) {
      call.object.apply(region_, measured, call.stats);
    });
  }

  // Copies the variable through the strategy. Throws std::invalid_argument if it has no consistent read.
  void read(const std::string& strategy, const std::vector<std::string>& parameters, std::span<T> into,
            int worker) {
    check(into, "into");
    const Call call(*this, strategy, parameters, worker);
    measured_read(call.measures, Reading<T>{.into = into}, call.stats,
                  [&](const Reading<T>& reading) { call.object.read(region_, reading, call.stats); });
  }

  // Copies the memory without the strategy, while others may update it.
  void copy(const std::string& strategy, const std::vector<std::string>& parameters, std::span<T> into,
            int worker) {
    check(into, "into");
    check_in_place(strategy);
    const Call call(*this, strategy, parameters, worker);
    call.object.note_read(region_);
    const std::span<const T> memory = region_.memory(Holding::nothing);
    measured_read(call.measures, Reading<T>{.into = into}, call.stats,
                  [&](const Reading<T>& reading) { reading(memory, 0, memory.size()); });
  }

  // The same for some rows of that many elements, in order and each once, into an array of theirs.
  void copy_rows(const std::string& strategy, const std::vector<std::string>& parameters,
                 std::span<const std::int64_t> rows, std::size_t width, std::span<T> into, int worker) {
    check(into, "into");
    check_in_place(strategy);
    const Call call(*this, strategy, parameters, worker);
    std::vector<NonZero<T>> noted;
    for (const std::int64_t row : rows) noted.push_back({static_cast<std::uint32_t>(row), T{1}});
    call.object.note_rows(region_, noted, width);
    const Copy<T> copying = find_copy<T>();
    const std::span<const T> memory = region_.memory(Holding::nothing);
    std::optional<WatchedRows> watch;
    if (watches_rows(call.measures)) watch.emplace(call.measures->watch_rows());
    for (std::size_t place = 0; place < rows.size(); ++place) {
      const std::size_t first = static_cast<std::size_t>(rows[place]) * width;
      T* const to = into.data() + place * width;
      if (!watch) {
        copying(memory.data() + first, to, width);
        continue;
      }
      watch->around(rows[place], first, width, [&](std::size_t begin, std::size_t n) {
        copying(memory.data() + begin, to + (begin - first), n);
      });
    }
    clear_upper_halves();
    if (watch) call.stats.count_read(watch->torn());
  }

  // The updates of elements that were made, and how many of them were lost. nullopt without full measures,
  // and before the variable is prepared or used. Must be called while no thread updates.
  struct Lost {
    std::int64_t expected, lost;
  };
  std::optional<Lost> lost() {
    if (measures_ == nullptr) return std::nullopt;
    std::int64_t updates = 0;
    for (int worker = 0; worker < workers(); ++worker) updates += stats(worker).updates();
    const std::int64_t expected = measures_->expected(updates);
    return Lost{expected, expected - measures_->kept()};
  }

  // Whether it is counted how many reads were torn. Must be called while no thread updates.
  bool counts_torn_reads() {
    return measures_ != nullptr && (measures_->shadow() != nullptr || watches_rows(measures_.get()));
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

  // An update or a read: its strategy, worker, counters and measures, which are null unless they are full.
  struct Call {
    Call(Variable& variable, const std::string& strategy, const std::vector<std::string>& parameters,
         int named)
        : worker(variable.leases_, named),
          stats(variable.counts_.stats(worker.number(), 0)),
          object(variable.object_of(strategy, parameters)),
          measures(variable.measures_of(strategy, parameters, object)) {}

    const WorkerOfCall worker;
    ThreadStats& stats;
    AnyStrategy<Region>& object;
    VariableMeasures* const measures;
  };

  void check(std::span<const T> operand, const char* name) {
    check_aligned(operand, name);
    check_apart<T>(region_.memory(Holding::nothing), operand, name);
  }

  static void check_in_place(const std::string& strategy) {
    if (!listed_strategy(strategy).keeps_elsewhere) return;
    throw std::invalid_argument("strategy " + strategy +
                                " does not keep the variable in its memory, so it has no plain read");
  }

  static bool watches_rows(const VariableMeasures* measures) {
    return measures != nullptr && measures->watches_rows();
  }

  // The measures, created at the first use, for the strategy of that use.
  VariableMeasures* measures_of(const std::string& strategy, const std::vector<std::string>& parameters,
                                const AnyStrategy<Region>& object) {
    if (!full_) return nullptr;
    const std::lock_guard held(strategies_mutex_);
    if (measures_ == nullptr) {
      const std::size_t elements = region_.memory(Holding::nothing).size();
      measures_ = std::make_unique<VariableMeasures>(strategy, parameters, elements, workers(), width_);
      measured_ = &object;
    }
    if (measured_ != &object) throw std::invalid_argument("full measures are those of one strategy");
    return measures_.get();
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
  const bool full_;
  const std::size_t width_;
  std::mutex strategies_mutex_;  // guards what follows
  std::map<std::pair<std::string, Parameters::Values>, std::unique_ptr<AnyStrategy<Region>>> objects_;
  std::map<std::pair<std::string, std::vector<std::string>>, AnyStrategy<Region>*> as_written_;
  std::unique_ptr<VariableMeasures> measures_;
  const AnyStrategy<Region>* measured_ = nullptr;  // the object of the measures
};

}  // namespace tmflow::python
