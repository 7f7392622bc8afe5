// Running transactions.
#pragma once

#include <cstdint>

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/cause.hpp"
#include "tmflow/stm/descriptor.hpp"
#include "tmflow/stm/domain.hpp"
#include "tmflow/stm/managers.hpp"
#include "tmflow/stm/policy.hpp"

namespace tmflow::stm {

// Out of line, because ThreadStats must not be compiled with two optimisations (see TMFLOW_STM_INLINE).
void count_commit(ThreadStats& stats, std::uint64_t retries) noexcept;
void count_abort(ThreadStats& stats, Cause cause) noexcept;

// After this many consecutive aborts a transaction yields before each attempt, whatever its manager: with
// more threads than cores, the thread that it waits for may need its core.
inline constexpr std::uint64_t kPatience = 8;

// Ends an attempt that an exception leaves.
template <class Transaction>
class Unwinding {
 public:
  Unwinding(Transaction& transaction, ThreadStats& stats) noexcept
      : transaction_(transaction), stats_(stats) {}
  Unwinding(const Unwinding&) = delete;
  Unwinding& operator=(const Unwinding&) = delete;

  ~Unwinding() {
    if (ended) return;
    transaction_.roll_back();
    count_abort(stats_, Cause::exception);
  }

  bool ended = false;

 private:
  Transaction& transaction_;
  ThreadStats& stats_;
};

// Runs `body`, a bool(Transaction&), as one transaction: all its stores appear atomically, at a moment at
// which all its loads were valid. Runs it repeatedly until it commits; returns true then. If the body
// requests an abort, or returns false although the attempt did not fail, it has no effect and the result is
// false. An exception of the body propagates, also without effect.
//
// Counts one commit and its retries, and each abort by its cause. Throws std::logic_error in a transaction of
// the same thread.
template <template <class, class> class Design, class Manager, class Policy = Sound, class Body>
bool atomically(typename Policy::Domain& domain, ThreadStats& stats, const Body& body) {
  using Transaction = Design<Manager, Policy>;
  const typename Policy::Domain::Claim claim;
  auto& self = claim.descriptor;
  Manager::enter(self, domain);
  for (std::uint64_t restarts = 1;; ++restarts) {
    Transaction transaction(domain, self);
    Unwinding unwinding(transaction, stats);
    const bool done = body(transaction);
    unwinding.ended = true;
    if (done && transaction.commit()) {
      count_commit(stats, restarts - 1);
      return true;
    }
    transaction.roll_back();
    const Cause cause = transaction.cause() == Cause::none ? Cause::requested : transaction.cause();
    count_abort(stats, cause);
    if (cause == Cause::requested) return false;
    Manager::before_retry(self, restarts, transaction.contended());
    if (restarts >= kPatience) give_way();
  }
}

// A transaction inside another one, as a part of it ("flat nesting"). It commits with the outer one or not at
// all, and if it is aborted, so is the outer one. For `if (!nested(transaction, part)) return false;`.
template <class Transaction, class Body>
[[nodiscard]] bool nested(Transaction& outer, const Body& body) {
  return body(outer) || outer.abort();
}

}  // namespace tmflow::stm
