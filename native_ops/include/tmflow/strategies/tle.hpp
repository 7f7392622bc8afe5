// tle: a private mutex, in a process in which glibc elides every pthread mutex.
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

// Contract: updates of a variable are serialised and none is lost; as with `lock_pthread`, this does not hold
// against an assignment of the whole variable. Memory ordering: glibc's. A section either holds the mutex, or
// is a transaction that has read the mutex's word as free and so aborts when another thread locks it, as in
// htm::elide.
//
// Elision belongs to the process: glibc reads its tunables before anything else runs, so the object can only
// be created in a process that was started with them (src/tmflow/spec/process_env.py). The tunables other
// than `enable` cannot be read back from inside. The code that starts the process must ensure that they are
// those that `tunables` names.
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
      .summary = "a pthread mutex, elided by glibc like all pthread mutexes of the process",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
      .parameters = kParameters,
      .own_process = true,
  };

  static std::optional<std::string> why_not() { return tle::why_not(); }

  // Throws std::invalid_argument if glibc does not elide the mutexes of this process.
  explicit Tle(const Parameters&) {
    if (const auto reason = why_not()) throw std::invalid_argument("tle cannot run here: " + *reason);
    if (!tle::mutexes_are_elided()) {
      throw std::invalid_argument(
          "tle needs a process whose mutexes glibc elides (GLIBC_TUNABLES=glibc.elision.enable=1), but this "
          "process elides none");
    }
  }

  // Counted: an elided section as a commit, one under the mutex as a fallback. glibc does not report its
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
  // Whether glibc elided the section. Only a section that was not elided has lock times, so only then is the
  // clock read.
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
