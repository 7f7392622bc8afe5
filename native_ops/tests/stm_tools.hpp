// The common tools of the STM tests: designs as types, words with separate locks, a second thread that runs
// exactly where the first one lets it, and the STM as a strategy for the audit.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "tmflow/core/region.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/read_only.hpp"
#include "tmflow/stm/wb_ctl.hpp"
#include "tmflow/stm/wb_etl.hpp"
#include "tmflow/stm/wt.hpp"

namespace tmflow::stm {

struct EncounterTime {
  template <class Manager, class Policy>
  using Of = WbEtl<Manager, Policy>;
};
struct CommitTime {
  template <class Manager, class Policy>
  using Of = WbCtl<Manager, Policy>;
};
struct WriteThrough {
  template <class Manager, class Policy>
  using Of = Wt<Manager, Policy>;
};
struct Reading {
  template <class Manager, class Policy>
  using Of = ReadOnly<Manager, Policy>;
};

template <class Design, class Manager = Suicide, class Policy = Sound, class Body>
bool run(Domain& domain, ThreadStats& stats, const Body& body) {
  return atomically<Design::template Of, Manager, Policy>(domain, stats, body);
}

// A policy that runs, once, the action that this thread has set for one of its points.
template <class Base = Sound>
struct Scripted : Base {
  static void at(Point point) {
    if (!action || point != awaited) return;
    std::exchange(action, nullptr)();
  }

  static void once(Point point, std::function<void()> what) {
    awaited = point;
    action = std::move(what);
  }

  static inline thread_local Point awaited{};
  static inline thread_local std::function<void()> action;
};

// Each is on a separate cache line, and so has a separate lock in a table that is large enough.
struct alignas(64) Cell {
  long value = 0;
  long neighbour = 0;  // in the same stripe
};

struct Cells {
  Cell x, y, z;
};

inline std::int64_t aborts(const ThreadStats& stats, Cause cause) {
  const auto counted = stats.aborts();
  const auto found = counted.find(static_cast<std::uint64_t>(cause));
  return found == counted.end() ? 0 : found->second;
}

// Another thread, whose transactions count in `stats`.
class Other {
 public:
  // Runs `what(stats)`. Returns when it has ended, or when it cannot end before this thread continues: one of
  // its attempts was refused, for `cause` if one is given.
  template <class What>
  void start(What what, std::optional<Cause> cause = std::nullopt) {
    thread_ = std::thread([this, what] {
      what(stats);
      done_ = true;
    });
    const auto refused = [&] { return cause ? aborts(stats, *cause) > 0 : !stats.aborts().empty(); };
    while (!done_ && !refused()) give_way();
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }
  ~Other() { join(); }

  ThreadStats stats;

 private:
  std::atomic<bool> done_{false};
  std::thread thread_;
};

template <class Transaction, class T>
[[nodiscard]] bool add(Transaction& transaction, T& word, T amount) {
  T value{};
  return transaction.load(&word, value) && transaction.store(&word, value + amount);
}

// Adds 1 to `word`, in one transaction.
template <class Design, class Policy = Sound, class Manager = Suicide>
void increment(Domain& domain, ThreadStats& stats, long& word) {
  run<Design, Manager, Policy>(domain, stats, [&](auto& transaction) { return add(transaction, word, 1L); });
}

// The update as one transaction, in a separate domain.
template <class Design, class Manager, class Policy = Sound>
class InDomain {
 public:
  explicit InDomain(std::size_t locks) : domain_(locks) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    run<Design, Manager, Policy>(domain_, stats, [&](auto& transaction) {
      for (std::size_t i = 0; i < memory.size(); ++i) {
        if (!add(transaction, memory[i], -update.alpha * update.delta[i])) return false;
      }
      return true;
    });
    stats.count_update();
  }

 private:
  Domain domain_;
};

}  // namespace tmflow::stm
