// An entry of the registry. Only the registry and the generated source file of each strategy
// (cmake/strategies.cmake) include this header, so a change of one strategy recompiles one file.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>

#include "tmflow/core/any_strategy.hpp"

namespace tmflow {

// Whether the strategy keeps the variable outside the region's memory.
template <class S>
concept KeepsElsewhere = requires(S& s, ArrayRegion<float>& region) { s.settle(region); };

// The strategy S as an AnyStrategy.
template <Strategy S, Region R>
class Held final : public AnyStrategy<R> {
 public:
  explicit Held(const Parameters& parameters)
    requires std::constructible_from<S, const Parameters&>
      : strategy_(parameters), kernel_(kernel_of(parameters)), dense_kernel_(dense_kernel_of(parameters)) {}
  explicit Held(const Parameters& parameters)
      : kernel_(kernel_of(parameters)), dense_kernel_(dense_kernel_of(parameters)) {}

  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) override {
    if (!S::info.runs_kernel && update.dense != nullptr) {
      throw std::invalid_argument(
          "strategy '" + std::string(S::info.name) +
          "' does not use the selectable kernels, so it cannot fuse an update with its gradient");
    }
    if (!kUpdatesSlots && update.slots != nullptr) {
      throw std::invalid_argument("strategy '" + std::string(S::info.name) +
                                  "' does not update ranges of the variable in place, so it cannot update "
                                  "slots with them");
    }
    if (update.slots != nullptr && update.dense != nullptr) {
      throw std::invalid_argument("an update of slots needs a written gradient");
    }
    GradientDescent<Value> with_kernel = update;
    with_kernel.kernel = kernel_;
    with_kernel.dense_kernel = dense_kernel_;
    if (update.dense == nullptr) {
      strategy_.apply(region, with_kernel, stats);
    } else {
      DenseGradient<Value> examined = *update.dense;
      examined.output_is_finite = all_finite(examined.output);
      with_kernel.dense = &examined;
      strategy_.apply(region, with_kernel, stats);
    }
  }

  void read([[maybe_unused]] R& region, [[maybe_unused]] const Reading<typename R::Value>& reading,
            [[maybe_unused]] ThreadStats& stats) override {
    if constexpr (requires { strategy_.read(region, reading, stats); }) {
      strategy_.read(region, reading, stats);
    } else {
      throw std::invalid_argument("strategy '" + std::string(S::info.name) + "' has no consistent read");
    }
  }

  std::span<const typename R::Value> view([[maybe_unused]] R& region,
                                          [[maybe_unused]] ThreadStats& stats) override {
    if constexpr (requires { strategy_.view(region, stats); }) return strategy_.view(region, stats);
    return {};
  }

  void settle([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.settle(region); }) strategy_.settle(region);
  }

  void restart([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.restart(region); }) strategy_.restart(region);
  }

  void note_read([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.note_read(region); }) strategy_.note_read(region);
  }

  void note_rows([[maybe_unused]] R& region,
                 [[maybe_unused]] std::span<const NonZero<typename R::Value>> inputs,
                 [[maybe_unused]] std::size_t width) override {
    if constexpr (requires { strategy_.note_rows(region, inputs, width); }) {
      strategy_.note_rows(region, inputs, width);
    }
  }

 private:
  using Value = typename R::Value;

  static constexpr bool kUpdatesSlots = S::info.runs_kernel && !KeepsElsewhere<S>;

  static Kernel<Value> kernel_of(const Parameters& parameters) {
    if constexpr (!S::info.runs_kernel) return find_kernel<Value>();
    if (const auto reason = kernel_why_not(parameters.text("kernel"))) throw std::invalid_argument(*reason);
    return find_kernel<Value>(parameters.text("kernel"), parameters.text("optimisation"));
  }

  static DenseKernel<Value> dense_kernel_of(const Parameters& parameters) {
    if constexpr (!S::info.runs_kernel) return find_dense_kernel<Value>();
    return find_dense_kernel<Value>(parameters.text("optimisation"));
  }

  [[no_unique_address]] S strategy_;
  const Kernel<Value> kernel_;
  const DenseKernel<Value> dense_kernel_;
};

template <Region R>
using MakeStrategy = std::unique_ptr<AnyStrategy<R>> (*)(const Parameters&);

struct Registered {
  StrategyInfo info;
  bool keeps_elsewhere;
  // The reason why it cannot run on this machine, or in this process with these parameters.
  std::optional<std::string> (*why_not)();
  std::optional<std::string> (*why_not_with)(const Parameters&);
  // For every type of region.
  std::tuple<MakeStrategy<ArrayRegion<float>>, MakeStrategy<ArrayRegion<double>>,
             MakeStrategy<ForeignRegion<float>>, MakeStrategy<ForeignRegion<double>>>
      make;
};

template <Strategy S>
std::optional<std::string> why_not_with(const Parameters& parameters) {
  std::optional<std::string> reason;
  if constexpr (requires { S::why_not(parameters); }) {
    reason = S::why_not(parameters);
  } else {
    reason = S::why_not();
  }
  if constexpr (S::info.own_process) {
    try {
      if (!reason) S made(parameters);
    } catch (const std::invalid_argument& error) {
      reason = error.what();
    }
  }
  return reason;
}

template <Strategy S, Region R>
std::unique_ptr<AnyStrategy<R>> make_held(const Parameters& parameters) {
  return std::make_unique<Held<S, R>>(parameters);
}

// The registry's entry of S.
template <Strategy S>
constexpr Registered registered() {
  return {.info = S::info,
          .keeps_elsewhere = KeepsElsewhere<S>,
          .why_not = [] { return S::why_not(); },
          .why_not_with = why_not_with<S>,
          .make = {make_held<S, ArrayRegion<float>>, make_held<S, ArrayRegion<double>>,
                   make_held<S, ForeignRegion<float>>, make_held<S, ForeignRegion<double>>}};
}

// All entries, in the order of cmake/strategies.cmake, which generates this function.
std::span<const Registered* const> registered_strategies() noexcept;

}  // namespace tmflow
