// What the strategies with hardware transactions share: their parameters, and the transactions that these
// select.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/parameters.hpp"
#include "tmflow/htm/elision.hpp"
#include "tmflow/htm/emulated/processor.hpp"
#include "tmflow/htm/update.hpp"

namespace tmflow::htm {

#if defined(__powerpc64__)
inline constexpr std::string_view kNative = "power";
#else
inline constexpr std::string_view kNative = "rtm";
#endif

inline constexpr Parameter kProvider{.name = "provider",
                                     .fallback = kNative,
                                     .summary = "vendor of the transactions",
                                     .choices = "rtm, power, emulated"};
inline constexpr Parameter kMachine{
    .name = "machine",
    .fallback = "",
    .summary = "the emulated machine; only for provider emulated",
    .text = emulated::MachineText::kAllowed,
    .check = [](std::string_view text) { emulated::MachineText::parse(text); }};
inline constexpr Parameter kBudget{
    .name = "budget", .fallback = "5", .summary = "attempts before the mutex is taken", .high = 1'000'000};
inline constexpr Parameter kSpending{.name = "spending",
                                     .fallback = "study_tsx",
                                     .summary = "retry policy: how much of the budget an abort costs",
                                     .choices = "study_tsx, study_power, tuned"};

inline bool is_emulated(const Parameters& parameters) { return parameters.text("provider") == "emulated"; }

// Throws std::invalid_argument unless a machine is given exactly for the emulated provider.
inline void check_machine(const std::string& strategy, const Parameters& parameters) {
  const bool has_machine = !parameters.text("machine").empty();
  if (is_emulated(parameters) && !has_machine) {
    throw std::invalid_argument("provider emulated of strategy '" + strategy + "' needs a machine");
  }
  if (!is_emulated(parameters) && has_machine) {
    throw std::invalid_argument("machine of strategy '" + strategy + "' is for provider emulated, not for " +
                                parameters.text("provider"));
  }
}

inline const Provider& provider(std::string_view name) {
  if (name == "emulated") return kEmulated;
  return name == "power" ? kPower : kRtm;
}

inline Spending spending(std::string_view name) {
  if (name == "tuned") return Spending::tuned;
  return name == "study_power" ? Spending::study_power : Spending::study_tsx;
}

// The transactions that the parameters of a strategy select.
class Transactions {
 public:
  // Why they cannot run on this machine: those of its own provider, or of that of the parameters.
  static std::optional<std::string> why_not() { return htm::provider(kNative).why_not(); }
  static std::optional<std::string> why_not(const Parameters& parameters) {
    return htm::provider(parameters.text("provider")).why_not();
  }

  // Throws std::invalid_argument for a provider that cannot run on this machine.
  Transactions(const std::string& strategy, const Parameters& parameters)
      : provider(htm::provider(parameters.text("provider"))),
        processor(is_emulated(parameters) ? &emulated::Processor::of(parameters.text("machine")) : nullptr),
        budget{.attempts = parameters.integer("budget"),
               .spending = htm::spending(parameters.text("spending"))} {
    if (const auto reason = provider.why_not()) {
      throw std::invalid_argument(strategy + " cannot run here: " + *reason);
    }
  }

  // Throws std::invalid_argument for an update that they cannot make.
  template <class T>
  void check(const GradientDescent<T>& update) const {
    if (processor != nullptr && update.dense != nullptr) {
      throw std::invalid_argument(
          "emulated transactions walk a gradient that is written: they cannot fuse an update with its "
          "gradient");
    }
  }

  // An access outside of transactions: real hardware sees it, an emulated processor is notified.
  void notice(std::initializer_list<emulated::Access> accesses) const {
    if (processor != nullptr) processor->here().notice(accesses);
  }

  // The same for a plain read of the rows of these inputs.
  template <class T>
  void notice_rows(std::span<const T> variable, std::span<const NonZero<T>> inputs, std::size_t width) const {
    for (const NonZero<T>& input : inputs) {
      const auto row = variable.subspan(input.row * width, width);
      notice({emulated::Access::read(row.data(), row.size_bytes())});
    }
  }

  const Provider& provider;
  emulated::Processor* const processor;  // null if the transactions are not emulated
  const Budget budget;
};

}  // namespace tmflow::htm
