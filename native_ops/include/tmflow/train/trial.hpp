// A trial of the native driver: worker threads that train a model's variables under a strategy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tmflow/core/registry.hpp"
#include "tmflow/measure/tracker.hpp"
#include "tmflow/measure/variable_measures.hpp"
#include "tmflow/train/model.hpp"
#include "tmflow/train/optimiser_state.hpp"

namespace tmflow::train {

enum class ReadingOf {
  plain,       // a step reads the memory as it is, without a copy, as in a session
  consistent,  // each region is read through the strategy, into the worker's memory
};

struct TrialPlan {
  std::string strategy;
  std::vector<std::string> parameters = {};  // "name=value"
  int workers = 1;
  Layout layout = Layout::separate;
  ReadingOf reading = ReadingOf::plain;
  Optimiser optimiser = Optimiser::sgd;
  bool pinned = false;         // each worker to a processor, cycling through those that this process may use
  bool full_measures = false;  // also lost updates, torn reads and lock times; this slows the trial down
};

// Steps over a set: step k uses its examples [starts[k], starts[k] + batch).
struct Steps {
  const TrainingSet& set;
  std::span<const std::int64_t> starts;
  std::size_t batch;
};

// The variables are in regions, each with a separate strategy object, and keep their values from one run to
// the next. Worker w of n takes the steps w, w + n, ... of a run, one after another: it reads the version,
// then the variables, computes the gradients in its own memory, applies each region's, and records its
// staleness. Between start and end of the workers' loop nothing is allocated, except with
// full measures, and for rows until a worker has seen its largest update.
//
// Memory ordering: starting and joining the workers orders a run against everything before and after it.
// While they run, a worker sees the values that the strategy publishes (consistent reading), or those that
// plain loads find (plain). The latter is a race by contract: such a reader is outside the strategy.
class Trial {
 public:
  using Region = ArrayRegion<float>;

  // Throws std::invalid_argument for an invalid plan.
  Trial(std::unique_ptr<const Model<float>> model, const TrialPlan& plan);

  // Restarts from these values, one span per variable in the model's order; resets the optimiser's state and
  // discards all counts. Throws std::invalid_argument, with nothing changed, for another number of values.
  void set_variables(const std::vector<std::span<const float>>& values);

  // Runs all steps; `losses` is empty or as long as steps.starts, and gets the loss of each step
  // before its update. Returns the seconds from the first worker's start to the last one's end. Throws
  // std::invalid_argument, with nothing done, for steps that do not fit; propagates exceptions of workers
  // once all have ended: the variables then keep the values reached.
  double run(const Steps& steps, float learning_rate, std::span<double> losses);

  // Measures of the updates of a region's elements.
  struct Lost {
    std::int64_t expected, lost;
    std::size_t elements;
    std::optional<std::int64_t> inconsistent;  // elements; nullopt without slots (Shadow)
  };

  // With full measures only; must be called while no worker runs.
  Lost lost(std::size_t region);
  // Whether torn reads of the region are counted, in the workers' counters.
  bool reports_torn_reads(std::size_t region) const noexcept;

  // The values of a variable. Must be called while no worker runs.
  std::span<const float> variable(std::size_t variable);

  const Model<float>& model() const noexcept { return *model_; }
  const std::vector<VariableShape>& shapes() const noexcept { return shapes_; }
  const std::vector<std::string>& region_names() const noexcept { return placement_.region_names(); }
  Tracker& tracker() noexcept { return tracker_; }
  int workers() const noexcept { return plan_.workers; }

 private:
  struct Shared {
    explicit Shared(std::span<float> memory) : region(memory) {}

    Region region;
    std::unique_ptr<AnyStrategy<Region>> strategy;
    std::unique_ptr<VariableMeasures> measures;  // null without full measures

    Shadow* shadow() const noexcept { return measures == nullptr ? nullptr : measures->shadow(); }
    // Whether torn reads are counted: of the whole region, or plain ones of its rows.
    bool watches_reads() const noexcept {
      return shadow() != nullptr || (measures != nullptr && measures->watches_rows());
    }
  };

  class Worker;

  void check(const Steps& steps, float learning_rate, std::span<double> losses) const;

  const std::unique_ptr<const Model<float>> model_;
  const TrialPlan plan_;
  const std::vector<VariableShape> shapes_;
  const Placement placement_;
  const bool fused_;
  RegionMemory<float> memory_;
  OptimiserState<float> optimiser_;
  std::vector<std::unique_ptr<Padded<Shared>>> regions_;
  Tracker tracker_;
};

}  // namespace tmflow::train
