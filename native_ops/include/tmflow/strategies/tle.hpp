// tle: a mutex of ours, in a process whose every pthread mutex glibc elides.
#pragma once

#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/htm/hardware_transaction.hpp"
#include "tmflow/sync/timed_lock.hpp"
#include "tmflow/tle/glibc_elision.hpp"

namespace tmflow {

// Contract: updates of a variable happen one after another and none is lost; as with `lock_pthread`, not
// against an assignment of the whole variable. Memory ordering: glibc's. A section either holds the mutex, or
// is a transaction that has read the mutex's word as free and so aborts when somebody takes it, as in
// htm::elide.
//
// Elision is the process's: glibc reads its tunables before anything else runs, so the object can only be
// made in a process that was started with them (src/tmflow/spec/process_env.py). The tunables beside
// `enable` cannot be read back from within; whoever started the process has to know that it was with those
// that `tunables` names.
class Tle {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "tunables",
       .fallback = "default",
       .summary = "the study's settings of glibc's lock elision",
       .choices = "default, custom"},
  };
  static constexpr StrategyInfo info{
      .name = "tle",
      .summary = "a mutex of ours, elided by glibc as all pthread mutexes of the process",
      .updates = Promise::tensor,
      .reads = Promise::element,
      .snapshots = Promise::tensor,
      .parameters = kParameters,
      .own_process = true,
  };

  static std::optional<std::string> why_not() { return tle::why_not(); }

  // Throws std::invalid_argument where this process's mutexes are not elided.
  explicit Tle(const Parameters&) {
    if (const auto reason = why_not()) throw std::invalid_argument("tle cannot run here: " + *reason);
    if (!tle::mutexes_are_elided()) {
      throw std::invalid_argument(
          "tle needs a process whose mutexes glibc elides (GLIBC_TUNABLES=glibc.elision.enable=1), and a "
          "mutex "
          "of this one, read back, is not elided");
    }
  }

  // Counted: an elided section as a commit, one under the mutex as a fallback. glibc does not tell its
  // attempts.
  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const bool elided = in_section([&] { update.in_transaction(memory, 0, memory.size()); }, stats);
    elided ? stats.count_commit() : stats.count_fallback();
    stats.hide_attempts();
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    in_section([&] { reading.in_transaction(memory, 0, memory.size()); }, stats);
  }

 private:
  // Whether glibc elided the section. Only where it did not is there a lock whose time could be taken, and
  // the clock is asked only there.
  template <class Body>
  bool in_section(const Body& body, ThreadStats& stats) {
    LockTimer times(stats);
    mutex_.lock();
    if (!in_hardware_transaction()) times.taken();
    body();
    const bool elided = in_hardware_transaction();
    mutex_.unlock();
    clear_upper_halves();  // inside, it would abort the transaction
    if (!elided) times.given_back();
    return elided;
  }

  std::mutex mutex_;
};

}  // namespace tmflow
