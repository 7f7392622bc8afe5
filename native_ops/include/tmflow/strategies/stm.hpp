// stm: software transactions of our own around the update.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "tmflow/stm/domain.hpp"
#include "tmflow/stm/update.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Contract: with chunk 0, updates of a variable happen one after another and none is lost; with a chunk, that
// holds for each chunk of elements. Only transactions of the process's domain take part: readers that use
// none see elements of different updates mixed, and with design `wt` also of attempts that abort later. The
// memory is fetched before the transaction, so an update that overlaps an assignment of the whole variable
// may be lost, as with `htm`. There is no fallback: every transaction ends in a commit. Memory ordering: see
// stm/word.hpp and stm/domain.hpp.
class Stm {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "design",
       .fallback = "wb_etl",
       .summary = "how transactions write: back or through, and lock at the encounter or at the commit",
       .choices = "wb_etl, wb_ctl, wt"},
      {.name = "manager",
       .fallback = "suicide",
       .summary = "who yields when two transactions conflict",
       .choices = "suicide, delay, backoff, aggressive, timestamp"},
      {.name = "instrumentation",
       .fallback = "shared",
       .summary =
           "which accesses go through the STM: also those to gradient and rate, or to the variable only",
       .choices = "all, shared"},
      {.name = "chunk",
       .fallback = "0",
       .summary = "elements per transaction; 0: the whole variable",
       .high = 1'000'000'000},
      {.name = "optimisation",
       .fallback = "O3",
       .summary = "how the transactional loop is compiled: the study's builds were probably not optimised",
       .choices = "O0, O3"},
  };
  static constexpr StrategyInfo info{
      .name = "stm",
      .summary = "software transactions: a global clock and versioned locks on words",
      .updates = Promise::tensor,
      .reads = Promise::none,  // with design `wt`, what attempts wrote that abort later
      .parameters = kParameters,
      .runs_kernel = false,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit Stm(const Parameters& parameters)
      : loop_of_float_(stm::find_loop<float>(name_of(parameters))),
        loop_of_double_(stm::find_loop<double>(name_of(parameters))),
        chunk_(parameters.integer("chunk") > 0 ? static_cast<std::size_t>(parameters.integer("chunk"))
                                               : std::numeric_limits<std::size_t>::max()) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const stm::Update<typename R::Value> as_update{memory.data(), update.delta.data(), update.alpha,
                                                   memory.size(), chunk_};
    loop<typename R::Value>()(as_update, stm::Domain::shared(), stats);
    stats.count_update();
  }

 private:
  static stm::LoopName name_of(const Parameters& parameters) {
    return {parameters.text("design"), parameters.text("manager"), parameters.text("instrumentation"),
            parameters.text("optimisation")};
  }

  template <class T>
  stm::Loop<T> loop() const {
    if constexpr (std::same_as<T, float>) {
      return loop_of_float_;
    } else {
      return loop_of_double_;
    }
  }

  const stm::Loop<float> loop_of_float_;
  const stm::Loop<double> loop_of_double_;
  const std::size_t chunk_;
};

}  // namespace tmflow
