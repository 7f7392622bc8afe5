#include "tmflow/core/registry.hpp"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "tmflow/core/registered.hpp"

namespace tmflow {
namespace {

Listed listed(const Registered& strategy) {
  return {strategy.info, strategy.why_not(), strategy.keeps_elsewhere};
}

const Registered& find(std::string_view name) {
  for (const Registered* strategy : registered_strategies()) {
    if (strategy->info.name == name) return *strategy;
  }
  throw std::invalid_argument("unknown strategy '" + std::string(name) + "'; valid: " + strategy_names());
}

}  // namespace

std::vector<Parameter> Listed::parameters() const {
  std::vector<Parameter> all(info.parameters.begin(), info.parameters.end());
  if (info.runs_kernel) all.insert(all.end(), std::begin(kKernelParameters), std::end(kKernelParameters));
  return all;
}

std::vector<Listed> listed_strategies() {
  std::vector<Listed> all;
  for (const Registered* strategy : registered_strategies()) all.push_back(listed(*strategy));
  return all;
}

std::string strategy_names(std::string_view quote) {
  std::string names;
  for (const Registered* strategy : registered_strategies()) {
    if (!names.empty()) names += ", ";
    names.append(quote).append(strategy->info.name).append(quote);
  }
  return names;
}

Listed listed_strategy(std::string_view name) { return listed(find(name)); }

Parameters parameters_of(std::string_view name, std::span<const std::string> given) {
  const Listed listed = listed_strategy(name);
  Parameters parameters(name, listed.parameters(), given);
  if (listed.info.check != nullptr) listed.info.check(parameters);
  return parameters;
}

std::optional<std::string> why_not(std::string_view name, std::span<const std::string> given) {
  const Parameters parameters = parameters_of(name, given);
  const Registered& strategy = find(name);
  std::optional<std::string> reason;
  if (strategy.info.runs_kernel) reason = kernel_why_not(parameters.text("kernel"));
  return reason ? reason : strategy.why_not_with(parameters);
}

void check_slots(Optimiser optimiser, std::string_view strategy, std::span<const std::string> given) {
  if (optimiser == Optimiser::sgd) {
    const Parameters parameters = parameters_of(strategy, given);
    const auto subscription = parameters.values().find("subscription");
    if (subscription == parameters.values().end() || subscription->second != "slots") return;
    throw std::invalid_argument("subscription slots of strategy '" + std::string(strategy) +
                                "' needs an optimiser with slots, and sgd has none");
  }
  const std::string subject = "optimiser " + std::string(name_of(optimiser));
  if (!listed_strategy(strategy).in_place()) {
    throw std::invalid_argument(subject + " does not go with strategy '" + std::string(strategy) +
                                "', which does not update ranges of a variable in place: it would leave the "
                                "optimiser's arrays out");
  }
  if (const std::string kernel = parameters_of(strategy, given).text("kernel"); kernel != "plain") {
    throw std::invalid_argument(subject + " has its own update loop, so kernel must be plain, not " + kernel);
  }
}

template <CompiledRegion R>
std::unique_ptr<AnyStrategy<R>> make_strategy(std::string_view name, std::span<const std::string> given) {
  return std::get<MakeStrategy<R>>(find(name).make)(parameters_of(name, given));
}

template std::unique_ptr<AnyStrategy<ArrayRegion<float>>> make_strategy(std::string_view,
                                                                        std::span<const std::string>);
template std::unique_ptr<AnyStrategy<ArrayRegion<double>>> make_strategy(std::string_view,
                                                                         std::span<const std::string>);
template std::unique_ptr<AnyStrategy<ForeignRegion<float>>> make_strategy(std::string_view,
                                                                          std::span<const std::string>);
template std::unique_ptr<AnyStrategy<ForeignRegion<double>>> make_strategy(std::string_view,
                                                                           std::span<const std::string>);

}  // namespace tmflow
