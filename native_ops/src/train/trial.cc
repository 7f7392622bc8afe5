#include "tmflow/train/trial.hpp"

#include <algorithm>
#include <barrier>
#include <cmath>
#include <stdexcept>

#include "denormals.hpp"
#include "pinning.hpp"
#include "tmflow/sync/run_together.hpp"
#include "worker.hpp"

namespace tmflow::train {
namespace {

// The value of a parameter of the kernel; the default if the strategy does not run one.
std::string of_kernel(const TrialPlan& plan, std::string_view name) {
  const Parameters parameters = parameters_of(plan.strategy, plan.parameters);
  if (const auto value = parameters.values().find(name); value != parameters.values().end())
    return value->second;
  return std::string(std::ranges::find(kKernelParameters, name, &Parameter::name)->fallback);
}

bool fuses(const TrialPlan& plan) { return of_kernel(plan, "kernel") == "fused"; }

void check(const TrialPlan& plan) {
  const Listed strategy = listed_strategy(plan.strategy);
  if (plan.reading == ReadingOf::plain && strategy.keeps_elsewhere) {
    throw std::invalid_argument("strategy '" + plan.strategy +
                                "' does not keep the variables in the memory that a plain read copies: "
                                "reading must be consistent");
  }
  if (plan.reading == ReadingOf::consistent && strategy.info.snapshots == Consistency::none) {
    throw std::invalid_argument("strategy '" + plan.strategy +
                                "' has no consistent read: reading must be plain");
  }
  if (fuses(plan) && plan.layout == Layout::joined) {
    throw std::invalid_argument(
        "kernel fused needs a separate region for each variable, but layout joined has one region for all");
  }
  check_slots(plan.optimiser, plan.strategy, plan.parameters);
}

// Throws if a variable is updated by rows, and the plan does not allow that.
void check_rows(const std::vector<VariableShape>& shapes, const TrialPlan& plan) {
  if (std::ranges::none_of(shapes, &VariableShape::by_rows)) return;
  if (plan.layout == Layout::joined) {
    throw std::invalid_argument(
        "rows of a variable are updated in a region of its own: layout must be separate");
  }
  if (plan.optimiser == Optimiser::adam) {
    throw std::invalid_argument(
        "optimiser adam cannot update rows: TensorFlow's Adam decays the moments of all other rows too");
  }
}

}  // namespace

Trial::Trial(std::unique_ptr<const Model<float>> model, const TrialPlan& plan)
    : model_(std::move(model)),
      plan_((train::check(plan), plan)),
      shapes_(model_->variables()),
      placement_(shapes_, plan.layout),
      fused_(fuses(plan)),
      memory_(placement_),
      optimiser_(plan.optimiser, placement_, of_kernel(plan, "optimisation")),
      tracker_(plan.workers, static_cast<int>(placement_.region_sizes().size())) {
  check_rows(shapes_, plan);
  for (std::size_t region = 0; region < placement_.region_sizes().size(); ++region) {
    regions_.push_back(std::make_unique<Padded<Shared>>(memory_.region(region)));
    Shared& shared = regions_.back()->value;
    shared.strategy = make_strategy<Region>(plan.strategy, plan.parameters);
    if (plan.full_measures) {
      shared.measures = std::make_unique<VariableMeasures>(
          plan.strategy, plan.parameters, placement_.region_sizes()[region], plan.workers,
          placement_.row_width(region), optimiser_.slots(region) != nullptr);
    }
    for (int worker = 0; worker < plan.workers; ++worker) {
      tracker_.stats(worker, static_cast<int>(region)).time_locks(plan.full_measures);
    }
  }
}

void Trial::set_variables(const std::vector<std::span<const float>>& values) {
  bool fit = values.size() == shapes_.size();
  for (std::size_t i = 0; fit && i < values.size(); ++i) fit = values[i].size() == shapes_[i].size();
  if (!fit) {
    std::string wanted;
    for (const VariableShape& shape : shapes_) {
      wanted.append(wanted.empty() ? "" : ", ").append(shape.name).append(" of ");
      wanted.append(std::to_string(shape.size()));
    }
    throw std::invalid_argument("the values must match the model's variables: " + wanted + " elements");
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::copy(values[i].begin(), values[i].end(), memory_.variable(i).begin());
  }
  optimiser_.reset();
  for (const auto& region : regions_) {
    region->value.strategy->restart(region->value.region);
    if (region->value.measures != nullptr) region->value.measures->reset();
  }
  tracker_.reset();
}

double Trial::run(const Steps& steps, float learning_rate, std::span<double> losses) {
  check(steps, learning_rate, losses);
  if (steps.starts.empty()) return 0;
  std::vector<std::unique_ptr<Worker>> workers;
  for (int number = 0; number < plan_.workers; ++number) {
    workers.push_back(std::make_unique<Worker>(*this, number, steps.batch));
  }
  const std::vector<int> processors = plan_.pinned ? allowed_processors() : std::vector<int>();
  std::barrier start(plan_.workers);
  const auto work = [&](int number) {
    const auto index = static_cast<std::size_t>(number);
    Worker& worker = *workers[index];
    try {
      if (plan_.pinned) stay_on(processors[index % processors.size()]);
    } catch (...) {
      worker.fail(std::current_exception());
      start.arrive_and_drop();
      return;
    }
    const FlushedDenormals flushed;
    start.arrive_and_wait();
    worker.loop(steps, learning_rate, losses);
  };
  run_at_once(plan_.workers, work, [&] { start.arrive_and_drop(); });
  for (const auto& worker : workers) {
    if (worker->failed()) std::rethrow_exception(worker->failed());
  }
  const auto by_start = [](const auto& a, const auto& b) { return a->began() < b->began(); };
  const auto by_end = [](const auto& a, const auto& b) { return a->ended() < b->ended(); };
  const auto first = (*std::min_element(workers.begin(), workers.end(), by_start))->began();
  const auto last = (*std::max_element(workers.begin(), workers.end(), by_end))->ended();
  return std::chrono::duration<double>(last - first).count();
}

Trial::Lost Trial::lost(std::size_t region) {
  const std::unique_ptr<VariableMeasures>& measures = regions_.at(region)->value.measures;
  if (measures == nullptr) throw std::invalid_argument("lost updates are counted with full measures only");
  std::int64_t updates = 0;
  for (int worker = 0; worker < plan_.workers; ++worker) {
    updates += tracker_.stats(worker, static_cast<int>(region)).updates();
  }
  const std::int64_t expected = measures->expected(updates);
  return {.expected = expected,
          .lost = expected - measures->kept(),
          .elements = measures->elements(),
          .inconsistent = measures->inconsistent()};
}

bool Trial::reports_torn_reads(std::size_t region) const noexcept {
  const Shared& shared = regions_[region]->value;
  return shared.shadow() != nullptr || (plan_.reading == ReadingOf::plain && shared.watches_reads());
}

std::span<const float> Trial::variable(std::size_t variable) {
  Shared& shared = regions_[placement_.places().at(variable).region]->value;
  shared.strategy->settle(shared.region);
  return memory_.variable(variable);
}

void Trial::check(const Steps& steps, float learning_rate, std::span<double> losses) const {
  const std::size_t pixels = model_->pixels(), classes = model_->classes(), images = steps.set.size();
  if (steps.set.has_images() != model_->takes_images()) {
    throw std::invalid_argument(
        model_->takes_images() ? "the model takes images, not examples that have a few of many features"
                               : "the model takes examples that have a few of many features, not images");
  }
  if (steps.set.pixels() != pixels || steps.set.classes() != classes) {
    throw std::invalid_argument("images and labels must be [n, " + std::to_string(pixels) + "] and [n, " +
                                std::to_string(classes) + "] with the same n");
  }
  const std::size_t of_example = model_->features_of_example();
  if (of_example != 0 && steps.set.features_of_example() != of_example) {
    throw std::invalid_argument("an example has " + std::to_string(steps.set.features_of_example()) +
                                " rows, but the model takes " + std::to_string(of_example));
  }
  if (steps.batch < 1 || steps.batch > images) {
    throw std::invalid_argument("batch is " + std::to_string(steps.batch) + ", but should be from 1 to " +
                                std::to_string(images) + ", the number of images");
  }
  const auto most = static_cast<std::int64_t>(images - steps.batch);
  for (const std::int64_t start : steps.starts) {
    if (start < 0 || start > most) {
      throw std::invalid_argument("a batch begins at image " + std::to_string(start) +
                                  ", but should begin at 0 to " + std::to_string(most));
    }
  }
  if (!std::isfinite(learning_rate)) {
    throw std::invalid_argument("learning_rate must be a finite number in float32");
  }
  if (!losses.empty() && losses.size() != steps.starts.size()) {
    throw std::invalid_argument("losses must have one element per step, " +
                                std::to_string(steps.starts.size()));
  }
}

}  // namespace tmflow::train
