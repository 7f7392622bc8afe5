// The registry of strategies: names to implementations. It includes no strategy and compiles quickly.
#pragma once

#include <concepts>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tmflow/core/any_strategy.hpp"

namespace tmflow {

// A strategy as the bindings list it.
struct Listed {
  StrategyInfo info;
  std::optional<std::string> why_not;
  bool keeps_elsewhere;  // between updates, the variable is outside the region's memory

  // Whether an update runs the kernel in the region's memory, once for each element, which a shadow requires.
  bool in_place() const { return info.runs_kernel && !keeps_elsewhere; }

  // The consistency of updates of a variable with that many elements, with these values of its parameters.
  Consistency updates_over(const Parameters& values, std::size_t elements) const {
    return info.updates_over == nullptr ? info.updates : info.updates_over(values, elements);
  }

  // The strategy's parameters, and those of the kernel if it runs one.
  std::vector<Parameter> parameters() const;
};

// All strategies, in the order of cmake/strategies.cmake.
std::vector<Listed> listed_strategies();

// The names, in that order, each between `quote`s: "lock, nolock".
std::string strategy_names(std::string_view quote = "");

// The entry of the named strategy. Throws std::invalid_argument for an unknown name.
Listed listed_strategy(std::string_view name);

// The values of the parameters of the named strategy. Throws std::invalid_argument for an unknown name, for
// values that the constructor of Parameters refuses, and for values that are incompatible with each other.
Parameters parameters_of(std::string_view name, std::span<const std::string> given);

// The reason why the named strategy cannot run in this process with these parameters; nullopt if it can.
// Throws like parameters_of.
std::optional<std::string> why_not(std::string_view name, std::span<const std::string> given);

// Throws std::invalid_argument, which names the reason, if updates under the strategy with these parameters
// cannot change the slots of this optimiser; and like parameters_of.
void check_slots(Optimiser optimiser, std::string_view strategy, std::span<const std::string> given);

// The types of region for which strategies are compiled.
template <class R>
concept CompiledRegion = std::same_as<R, ArrayRegion<float>> || std::same_as<R, ArrayRegion<double>> ||
                         std::same_as<R, ForeignRegion<float>> || std::same_as<R, ForeignRegion<double>>;

// A new object of the named strategy, for one variable. Throws like parameters_of.
template <CompiledRegion R>
std::unique_ptr<AnyStrategy<R>> make_strategy(std::string_view name, std::span<const std::string> given = {});

}  // namespace tmflow
