// stm: tmflow's software transactions around the update.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <tuple>

#include "tmflow/core/strategy.hpp"
#include "tmflow/stm/domain.hpp"
#include "tmflow/stm/update.hpp"

namespace tmflow {

// Contract: with chunk 0, updates of a variable are serialised and none is lost; with a chunk, this holds for
// each chunk of elements. An update of rows is one transaction, or one for each chunk that it touches; the
// numbers of the rows are not instrumented. Only transactions of the process's domain are isolated: readers
// without one see elements of different updates mixed, and with design `wt` also those of attempts that abort
// later. The memory is fetched before the transaction, so an update that overlaps an assignment of the whole
// variable may be lost, as with `htm`. There is no fallback: every transaction ends in a commit. `read` is a
// transaction too, which copies the variable as it was between two updates; with a chunk, each chunk. It
// waits no longer than an update does (stm/snapshot.hpp). Memory ordering: see stm/word.hpp and
// stm/domain.hpp.
class Stm {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "design",
       .fallback = "wb_etl",
       .summary = "write-back or write-through, encounter-time or commit-time locking",
       .choices = "wb_etl, wb_ctl, wt"},
      {.name = "manager",
       .fallback = "suicide",
       .summary = "contention manager: which of two conflicting transactions yields",
       .choices = "suicide, delay, backoff, aggressive, timestamp"},
      {.name = "instrumentation",
       .fallback = "shared",
       .summary =
           "instrumented accesses: all, including gradient and rate, or only those to the shared variable",
       .choices = "all, shared"},
      {.name = "chunk",
       .fallback = "0",
       .summary = "elements per transaction; 0: the whole variable",
       .high = 1'000'000'000},
      {.name = "optimisation",
       .fallback = "O3",
       .summary = "how the transactional loop is compiled; the study's builds were probably not optimised",
       .choices = "O0, O3"},
  };
  static constexpr StrategyInfo info{
      .name = "stm",
      .summary = "software transactions: a global clock and versioned locks on words",
      .updates = Consistency::tensor,
      .reads = Consistency::none,        // with design `wt`, readers see writes of attempts that abort later
      .snapshots = Consistency::tensor,  // with a chunk: of each chunk, as for updates
      .parameters = kParameters,
      .runs_kernel = false,
      .updates_over = [](const Parameters& given,
                         std::size_t n) { return consistency_in_parts(given.integer("chunk"), n); },
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
    const stm::Update<typename R::Value> as_update{memory.data(), update.pointers(), update.alpha, chunk_};
    std::get<stm::Loop<typename R::Value>>(loops_)(as_update, stm::Domain::shared(), stats);
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats&) {
    const auto memory = region.memory(Holding::nothing);
    const stm::Snapshot<typename R::Value> as_snapshot{memory.data(), reading.into.data(), memory.size(),
                                                       chunk_};
    ThreadStats own;  // a read is not counted as an update's transaction
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
