// The registry of strategies: names to implementations. It includes no strategy, and is quick to compile.
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
  bool keeps_elsewhere;  // the variable, between updates, in other memory than the region's

  // Whether an update runs the kernel on the region's memory, once for each element: what a shadow needs.
  bool in_place() const { return info.runs_kernel && !keeps_elsewhere; }

  // What it guarantees of updates of a variable of so many elements, with these values of its parameters.
  Promise updates_over(const Parameters& values, std::size_t elements) const {
    return info.updates_over == nullptr ? info.updates : info.updates_over(values, elements);
  }

  // Its own, and the kernel's if it runs one.
  std::vector<Parameter> parameters() const;
};

// All of them, in the order of cmake/strategies.cmake.
std::vector<Listed> listed_strategies();

// The names, in that order, each between `quote`s: "lock, nolock".
std::string strategy_names(std::string_view quote = "");

// What is listed of the named strategy. Throws std::invalid_argument for a name that is not listed.
Listed listed_strategy(std::string_view name);

// The values of the parameters of the named strategy. Throws std::invalid_argument for a name that is not
// listed, as the constructor of Parameters does, and for values that do not fit each other.
Parameters parameters_of(std::string_view name, std::span<const std::string> given);

// Why the named strategy cannot run in this process with these parameters; nullopt if it can. Throws as
// parameters_of does.
std::optional<std::string> why_not(std::string_view name, std::span<const std::string> given);

// The types of region that strategies are compiled for.
template <class R>
concept CompiledRegion = std::same_as<R, ArrayRegion<float>> || std::same_as<R, ArrayRegion<double>> ||
                         std::same_as<R, ForeignRegion<float>> || std::same_as<R, ForeignRegion<double>>;

// A new object of the named strategy, for one variable. Throws as parameters_of does.
template <CompiledRegion R>
std::unique_ptr<AnyStrategy<R>> make_strategy(std::string_view name, std::span<const std::string> given = {});

}  // namespace tmflow
