// The registry of strategies: names to implementations.
#pragma once

#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tmflow/strategies/adaptive.hpp"
#include "tmflow/strategies/atomic.hpp"
#include "tmflow/strategies/block_stm.hpp"
#include "tmflow/strategies/combining.hpp"
#include "tmflow/strategies/htm.hpp"
#include "tmflow/strategies/itm.hpp"
#include "tmflow/strategies/leashed.hpp"
#include "tmflow/strategies/lock.hpp"
#include "tmflow/strategies/lock_pthread.hpp"
#include "tmflow/strategies/nolock.hpp"
#include "tmflow/strategies/spin.hpp"
#include "tmflow/strategies/spin_then_mutex.hpp"
#include "tmflow/strategies/stm.hpp"
#include "tmflow/strategies/striped.hpp"
#include "tmflow/strategies/tle.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

template <Strategy... S>
struct StrategyList {};

// Every strategy; a new one is its file in strategies/ and its name here.
using Strategies = StrategyList<Lock, NoLock, LockPthread, Spin, SpinThenMutex, Htm, Itm, Stm, Tle, Striped,
                                Combining, Atomic, BlockStm, Leashed, Adaptive>;

// A strategy object behind one type, for callers that know its name only when they run.
template <Region R>
class AnyStrategy {
 public:
  virtual ~AnyStrategy() = default;
  virtual void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) = 0;
  // Throws std::invalid_argument where the strategy promises nothing of reads by way of it.
  virtual void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) = 0;
  // The region's memory holds the variable as the last update left it. Called while nobody updates.
  virtual void settle(R& region) = 0;
  // The region's memory was assigned, and the variable is what it holds now. Called while nobody updates.
  virtual void restart(R& region) = 0;
  // Somebody reads the whole variable who takes no part in the strategy; most strategies need not know.
  virtual void note_read(R& region) = 0;
};

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
      throw std::invalid_argument("strategy '" + std::string(S::info.name) +
                                  "' has a loop of its own: it cannot fuse an update with its gradient");
    }
    GradientDescent<Value> by_its_kernel = update;
    by_its_kernel.kernel = kernel_;
    by_its_kernel.dense_kernel = dense_kernel_;
    if (update.dense == nullptr) {
      strategy_.apply(region, by_its_kernel, stats);
    } else {
      DenseGradient<Value> examined = *update.dense;
      examined.output_is_finite = all_finite(examined.output);
      by_its_kernel.dense = &examined;
      strategy_.apply(region, by_its_kernel, stats);
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

  void settle([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.settle(region); }) strategy_.settle(region);
  }

  void restart([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.restart(region); }) strategy_.restart(region);
  }

  void note_read([[maybe_unused]] R& region) override {
    if constexpr (requires { strategy_.note_read(region); }) strategy_.note_read(region);
  }

 private:
  using Value = typename R::Value;

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

// Whether the strategy keeps the variable elsewhere than in the region's memory.
template <class S>
concept KeepsElsewhere = requires(S& s, ArrayRegion<float>& region) { s.settle(region); };

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
  std::vector<Parameter> parameters() const {
    std::vector<Parameter> all(info.parameters.begin(), info.parameters.end());
    if (info.runs_kernel) all.insert(all.end(), std::begin(kKernelParameters), std::end(kKernelParameters));
    return all;
  }
};

inline std::vector<Listed> listed_strategies() {
  return []<class... S>(StrategyList<S...>) {
    return std::vector<Listed>{{S::info, S::why_not(), KeepsElsewhere<S>}...};
  }(Strategies{});
}

// The names, in the registry's order, each between `quote`s: "lock, nolock".
inline std::string strategy_names(std::string_view quote = "") {
  std::string names;
  for (const Listed& strategy : listed_strategies()) {
    if (!names.empty()) names += ", ";
    names.append(quote).append(strategy.info.name).append(quote);
  }
  return names;
}

// What is listed of the named strategy. Throws std::invalid_argument for a name that is not listed.
inline Listed listed_strategy(std::string_view name) {
  for (const Listed& listed : listed_strategies()) {
    if (listed.info.name == name) return listed;
  }
  throw std::invalid_argument("unknown strategy '" + std::string(name) + "'; valid: " + strategy_names());
}

// The values of the parameters of the named strategy. Throws std::invalid_argument for a name that is not
// listed, as the constructor of Parameters does, and for values that do not fit each other.
inline Parameters parameters_of(std::string_view name, std::span<const std::string> given) {
  const Listed listed = listed_strategy(name);
  Parameters parameters(name, listed.parameters(), given);
  if (listed.info.check != nullptr) listed.info.check(parameters);
  return parameters;
}

// Why the named strategy cannot run in this process with these parameters; nullopt if it can. Throws as
// parameters_of does.
inline std::optional<std::string> why_not(std::string_view name, std::span<const std::string> given) {
  const Parameters parameters = parameters_of(name, given);
  std::optional<std::string> reason;
  if (listed_strategy(name).info.runs_kernel) reason = kernel_why_not(parameters.text("kernel"));
  const auto ask = [&]<class S>(std::type_identity<S>) {
    if (name != S::info.name || reason) return;
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
  };
  [&]<class... S>(StrategyList<S...>) { (ask(std::type_identity<S>()), ...); }(Strategies{});
  return reason;
}

// A new object of the named strategy, for one variable. Throws as parameters_of does.
template <Region R>
std::unique_ptr<AnyStrategy<R>> make_strategy(std::string_view name,
                                              std::span<const std::string> given = {}) {
  const Parameters parameters = parameters_of(name, given);
  std::unique_ptr<AnyStrategy<R>> made;
  [&]<class... S>(StrategyList<S...>) {
    ((name == S::info.name && (made = std::make_unique<Held<S, R>>(parameters))) || ...);
  }(Strategies{});
  return made;
}

}  // namespace tmflow
