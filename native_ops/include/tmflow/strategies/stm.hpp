// stm: software transactions of our own around the update.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "tmflow/core/strategy.hpp"
#include "tmflow/stm/domain.hpp"
#include "tmflow/stm/update.hpp"

namespace tmflow {

// Contract: with chunk 0, updates of a variable happen one after another and none is lost; with a chunk, that
// holds for each chunk of elements. Only transactions of the process's domain take part: readers that use
// none see elements of different updates mixed, and with design `wt` also of attempts that abort later. The
// memory is fetched before the transaction, so an update that overlaps an assignment of the whole variable
// may be lost, as with `htm`. There is no fallback: every transaction ends in a commit. `read` is a
// transaction too, which copies the variable as it was between two updates; with a chunk, each chunk. It
// waits for no more than an update does (stm/snapshot.hpp). Memory ordering: see stm/word.hpp and
// stm/domain.hpp.
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
      .reads = Promise::none,        // with design `wt`, what attempts wrote that abort later
      .snapshots = Promise::tensor,  // with a chunk, as the updates: of each chunk
      .parameters = kParameters,
      .runs_kernel = false,
      .updates_over = [](const Parameters& its,
                         std::size_t n) { return promise_in_parts(its.integer("chunk"), n); },
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit Stm(const Parameters& parameters)
      : loops_{stm::find_loop<float>(name_of(parameters)), stm::find_loop<double>(name_of(parameters))},
        snapshot_loops_{stm::find_snapshot_loop<float>(name_of(parameters)),
                        stm::find_snapshot_loop<double>(name_of(parameters))},
        chunk_(parameters.integer("chunk") > 0 ? static_cast<std::size_t>(parameters.integer("chunk"))
                                               : std::numeric_limits<std::size_t>::max()) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const stm::Update<typename R::Value> as_update{memory.data(), update.delta.data(), update.alpha,
                                                   memory.size(), chunk_};
    std::get<stm::Loop<typename R::Value>>(loops_)(as_update, stm::Domain::shared(), stats);
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats&) {
    const auto memory = region.memory(Holding::nothing);
    const stm::Snapshot<typename R::Value> as_snapshot{memory.data(), reading.into.data(), memory.size(),
                                                       chunk_};
    ThreadStats own;  // a reading counts as no update's transaction
    std::get<stm::SnapshotLoop<typename R::Value>>(snapshot_loops_)(as_snapshot, stm::Domain::shared(), own);
  }

 private:
  static stm::LoopName name_of(const Parameters& parameters) {
    return {parameters.text("design"), parameters.text("manager"), parameters.text("instrumentation"),
            parameters.text("optimisation")};
  }

  const std::tuple<stm::Loop<float>, stm::Loop<double>> loops_;
  const std::tuple<stm::SnapshotLoop<float>, stm::SnapshotLoop<double>> snapshot_loops_;
  const std::size_t chunk_;
};

}  // namespace tmflow
