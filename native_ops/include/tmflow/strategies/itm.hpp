// itm: the update as one of GCC's transactions, run by libitm or by a library put before it.
#pragma once

#include <optional>
#include <string>
#include <tuple>

#include "tmflow/core/strategy.hpp"
#include "tmflow/itm/transaction.hpp"

namespace tmflow {

// Contract: updates of a variable happen one after another and none is lost. Only transactions are kept
// apart: an update that overlaps an assignment of the whole variable may be lost, and as libitm's methods
// write in place and undo that when they restart, a reader may see what never will have been. Memory
// ordering: see itm::Update.
//
// The method is the process's: libitm takes it from the environment once, so the object can only be made in a
// process that was started for it (src/tmflow/spec/process_env.py).
class Itm {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "method",
       .fallback = "ml_wt",
       .summary = "libitm's way of keeping transactions apart",
       .choices = "gl_wt, ml_wt, serialirr, serialirr_onwrite, serial, htm"},
      {.name = "optimisation",
       .fallback = "O3",
       .summary = "how the transaction is compiled",
       .choices = "O0, O3"},
  };
  static constexpr StrategyInfo info{
      .name = "itm",
      .summary = "a transaction of GCC's libitm, or of a library like it, around the whole update",
      .updates = Promise::tensor,
      .reads = Promise::none,
      .parameters = kParameters,
      .runs_kernel = false,
      .own_process = true,
  };

  static std::optional<std::string> why_not() { return itm::why_not(); }

  // Throws as itm::require_method does.
  explicit Itm(const Parameters& parameters)
      : update_{itm::find_update<float>(parameters.text("optimisation")),
                itm::find_update<double>(parameters.text("optimisation"))},
        hardware_(parameters.text("method") == "htm") {
    itm::require_method(parameters.text("method"));
  }

  // Counted: a restart as an abort of unknown cause, a transaction that at last ran irrevocably as a
  // fallback. The restarts of libitm's hardware transactions leave no trace.
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    itm::Execution execution;
    std::get<itm::Update<typename R::Value>>(update_)(memory.data(), update.delta.data(), update.alpha,
                                                      memory.size(), execution);
    if (hardware_) {
      stats.hide_attempts();
    } else if (execution.times > 1) {
      stats.count_abort(kUntold, execution.times - 1);
    }
    if (!hardware_) stats.count(Contention::retries, execution.times - 1);
    execution.alone ? stats.count_fallback() : stats.count_commit();
    stats.count_update();
  }

 private:
  static constexpr std::uint64_t kUntold = 0;  // libitm does not say why

  const std::tuple<itm::Update<float>, itm::Update<double>> update_;
  const bool hardware_;
};

}  // namespace tmflow
