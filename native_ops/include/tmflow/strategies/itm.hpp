// itm: the update as one of GCC's transactions, run by libitm or by a library loaded before it.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "tmflow/core/strategy.hpp"
#include "tmflow/itm/transaction.hpp"

namespace tmflow {

// Contract: updates of a variable are serialised and none is lost; an update of rows is one transaction, too.
// Only transactions are isolated from each other: an update that overlaps an assignment of the whole variable
// may be lost. libitm's methods write in place and undo the writes when they restart, so a plain reader may
// see a value that never becomes valid. Memory ordering: see itm::Update.
//
// The method belongs to the process: libitm reads it from the environment once, so the object can only be
// created in a process that was started for it (src/tmflow/spec/process_env.py).
class Itm {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "method",
       .fallback = "ml_wt",
       .summary = "libitm's concurrency control",
       .choices = "gl_wt, ml_wt, serialirr, serialirr_onwrite, serial, htm"},
      {.name = "optimisation",
       .fallback = "O3",
       .summary = "how the transaction is compiled",
       .choices = "O0, O3"},
  };
  static constexpr StrategyInfo info{
      .name = "itm",
      .summary = "one transaction of GCC's libitm, or of a compatible library, for the whole update",
      .updates = Consistency::tensor,
      .reads = Consistency::none,
      .parameters = kParameters,
      .runs_kernel = false,
      .own_process = true,
  };

  static std::optional<std::string> why_not() { return itm::why_not(); }

  // Throws like itm::require_method.
  explicit Itm(const Parameters& parameters)
      : update_{itm::find_update<float>(parameters.text("optimisation")),
                itm::find_update<double>(parameters.text("optimisation"))},
        hardware_(parameters.text("method") == "htm") {
    itm::require_method(parameters.text("method"));
  }

  // Counted: a restart as an abort of unknown cause, a transaction that finally ran irrevocably as a
  // fallback. The restarts of libitm's hardware transactions cannot be counted.
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    itm::Execution execution;
    std::get<itm::Update<typename R::Value>>(update_)(memory.data(), update.pointers(), update.alpha,
                                                      execution);
    if (hardware_) {
      stats.hide_attempts();
    } else if (execution.times > 1) {
      stats.count_abort(kUnknownCause, execution.times - 1);
    }
    if (!hardware_) stats.count(Contention::retries, execution.times - 1);
    execution.alone ? stats.count_fallback() : stats.count_commit();
    stats.count_update();
  }

 private:
  static constexpr std::uint64_t kUnknownCause = 0;  // libitm does not report the cause

  const std::tuple<itm::Update<float>, itm::Update<double>> update_;
  const bool hardware_;
};

}  // namespace tmflow
