// block_stm: software transactions over ranges, with a versioned lock for each block of elements.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include "tmflow/core/strategy.hpp"
#include "tmflow/ranges/snapshot.hpp"
#include "tmflow/ranges/transaction.hpp"

namespace tmflow {

// Contract: updates of a variable are serialised and none is lost; `read` copies the variable as it was
// between two of them. An update is one transaction that locks all blocks that it touches, from the first to
// the last, before it writes any. A dense update that loses a race loses it at the first block, before any
// work. Once it holds all locks no thread can abort it, so it needs no undo log, and readers outside the
// strategy see nothing that is undone later. (Transactions that write before they know what they will need
// keep a log: ranges/transaction.hpp.) There is no fallback: every transaction ends in a commit. The memory
// is fetched before the transaction, so an update that overlaps an assignment of the whole variable may be
// lost.
//
// A reader copies without a lock and checks the versions before and after; if writers keep interfering, it
// locks like an update. Under any manager of the updates, it then tries again as soon as the lock that it
// missed is free: if it backed off, writers that never pause would always be first.
//
// Memory ordering: see ranges/transaction.hpp and ranges/snapshot.hpp.
template <template <class> class Atom = std::atomic, class Policy = ranges::Sound>
class BasicBlockStm {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "block", .fallback = "4096", .summary = "elements per lock", .low = 1, .high = 1'000'000'000},
      {.name = "manager",
       .fallback = "backoff",
       .summary = "contention manager: which of two conflicting transactions yields",
       .choices = "suicide, delay, backoff, aggressive, timestamp"},
  };
  static constexpr StrategyInfo info{
      .name = "block_stm",
      .summary = "software transactions over ranges: a versioned lock for each block of elements",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,
      .parameters = kParameters,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicBlockStm(const Parameters& parameters)
      : BasicBlockStm(static_cast<std::size_t>(parameters.integer("block")), parameters.text("manager")) {}

  explicit BasicBlockStm(std::size_t block, std::string_view manager = "backoff",
                         std::size_t locks = ranges::LockTable<Atom>::kLocks)
      : locks_(block, locks), manager_(manager_named(manager)) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    managed([&]<class M>(const M&) {
      return ranges::atomically<M, Policy>(
          locks_, stats, [&](auto& transaction) { return hold_touched(transaction, update, memory.size()); },
          [&]() noexcept { update(memory, 0, memory.size()); });
    });
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const auto copy = [&]() noexcept { reading(memory, 0, memory.size()); };
    if (ranges::copy_unlocked<Policy>(locks_, memory.size(), copy)) return;
    ThreadStats own;  // a read is not counted as an update's transaction
    own.time_locks(stats.times_locks());
    ranges::atomically<stm::Delay, Policy>(
        locks_, own, [&](auto& transaction) { return transaction.hold(0, memory.size()); }, copy);
    stats.add_lock_times(own.waited_ns(), own.held_ns());
  }

  // Runs `body` as one transaction: ranges::atomically.
  template <class Body>
  bool atomically(ThreadStats& stats, const Body& body) {
    return managed([&]<class M>(const M&) {
      return ranges::atomically<M, Policy>(locks_, stats, body, []() noexcept {});
    });
  }

 private:
  using Manager = std::variant<stm::Suicide, stm::Delay, stm::Backoff, stm::Aggressive, stm::Timestamp>;

  static Manager manager_named(std::string_view name) {
    if (name == "suicide") return stm::Suicide();
    if (name == "backoff") return stm::Backoff();
    if (name == "aggressive") return stm::Aggressive();
    if (name == "timestamp") return stm::Timestamp();
    if (name == "delay") return stm::Delay();
    throw std::invalid_argument("unknown contention manager '" + std::string(name) + "'");
  }

  // Holds the elements that the update may change. A transaction may ask for a block that it holds already.
  template <class Transaction, class T>
  static bool hold_touched(Transaction& transaction, const GradientDescent<T>& update, std::size_t count) {
    if (update.rows == nullptr) return transaction.hold(0, count);
    for (const std::int64_t row : update.rows->rows) {
      if (!transaction.hold(static_cast<std::size_t>(row) * update.rows->width, update.rows->width))
        return false;
    }
    return true;
  }

  template <class F>
  bool managed(const F& f) {
    return std::visit(f, manager_);
  }

  ranges::LockTable<Atom> locks_;
  const Manager manager_;
};

using BlockStm = BasicBlockStm<>;

}  // namespace tmflow
