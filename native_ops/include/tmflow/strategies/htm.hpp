// htm: the variable's own mutex is elided by hardware transactions, as the study did.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>

#include "tmflow/htm/mutex_word.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: with chunk 0, updates of a variable happen one after another and none is lost, also against
// whoever takes the variable's mutex; with a chunk, that holds for each chunk of elements. Readers see
// elements of different updates mixed, as with `lock`. The memory is fetched before the transaction (fetching
// it takes the mutex for an instant, which a transaction cannot), so an update that overlaps an assignment of
// the whole variable may be lost, where `lock` would order the two. Memory ordering: see htm::elide.
class Htm {
 public:
#if defined(__powerpc64__)
  static constexpr std::string_view kNative = "power";
#else
  static constexpr std::string_view kNative = "rtm";
#endif
  static constexpr Parameter kParameters[] = {
      {.name = "provider", .fallback = kNative, .summary = "whose transactions", .choices = "rtm, power"},
      {.name = "budget", .fallback = "5", .summary = "attempts before the mutex is taken", .high = 1'000'000},
      {.name = "spending",
       .fallback = "study_tsx",
       .summary = "what an abort takes from the budget",
       .choices = "study_tsx, study_power, tuned"},
      {.name = "chunk",
       .fallback = "0",
       .summary = "elements per transaction; 0: the whole variable",
       .high = 1'000'000'000},
  };
  static constexpr StrategyInfo info{
      .name = "htm",
      .summary = "hardware transactions elide the variable's own mutex",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .parameters = kParameters,
  };

  // Of this machine's own provider.
  static std::optional<std::string> why_not() { return provider(kNative).why_not(); }

  // Throws std::invalid_argument for a provider that cannot run on this machine.
  explicit Htm(const Parameters& parameters)
      : provider_(provider(parameters.text("provider"))),
        budget_{.attempts = parameters.integer("budget"), .spending = spending(parameters.text("spending"))},
        chunk_(parameters.integer("chunk") > 0 ? static_cast<std::size_t>(parameters.integer("chunk"))
                                               : std::numeric_limits<std::size_t>::max()) {
    if (const auto reason = provider_.why_not())
      throw std::invalid_argument("htm cannot run here: " + *reason);
  }

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    provider_.run(htm::ElidedUpdate<typename R::Value>{update, memory, chunk_}, htm::elidable(region.mutex()),
                  budget_, stats);
    stats.count_update();
  }

 private:
  static const htm::Provider& provider(std::string_view name) {
    return name == "power" ? htm::kPower : htm::kRtm;
  }

  static htm::Spending spending(std::string_view name) {
    if (name == "tuned") return htm::Spending::tuned;
    return name == "study_power" ? htm::Spending::study_power : htm::Spending::study_tsx;
  }

  const htm::Provider& provider_;
  const htm::Budget budget_;
  const std::size_t chunk_;
};

}  // namespace tmflow
