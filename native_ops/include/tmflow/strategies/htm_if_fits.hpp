// htm_if_fits: an update that fits is one hardware transaction, any other takes the locks of blocks, one
// after another.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/core/stripes.hpp"
#include "tmflow/htm/emulated/elided.hpp"
#include "tmflow/htm/fitting.hpp"
#include "tmflow/htm/transactions.hpp"

namespace tmflow {

// Contract: that of `striped`, with the same locks. Also, an update that commits as a transaction is one
// point in the order of all transactions and of all sections under a block's lock. Such a section may be a
// part of an update, so another update may have one block before that point and one after it. And any update
// may spend its budget. So no more than a block is promised. The slots of an optimiser change with their
// elements, in the same transaction or under the same lock. The memory is fetched before the transaction, as
// with `htm`.
//
// Memory ordering:
//
// - Two transactions that touch a common element: one writes what the other reads, so the hardware lets both
//   commit only if one does so before the other reads the element. A commit is one point in the order of
//   memory, as in htm::elide.
// - A transaction and an owner of a block's lock, which updates or reads the block: the transaction reads the
//   words of the locks of all blocks that it touches, before it touches an element. If it finds one taken, it
//   aborts. The read acquires, so if it finds the lock free, it sees the writes of the last owner. A thread
//   that locks later writes the word, which aborts the transaction; if the transaction has committed by then,
//   the owner sees all of its writes. So no owner ever sees, or overwrites, a part of a transaction.
// - Two owners of a block's lock: as with `striped`. No thread waits while it holds a lock, in a transaction
//   or not, so there is no deadlock.
//
// With an emulated processor, every lock and unlock of a block notifies it of the write of the word
// (htm::emulated::NotifyingMutex), and owners notify it of their accesses to the elements.
//
// Contention: the aborted attempts of every update; and of one that was made block by block, the number of
// its blocks whose lock was owned when tried.
class HtmIfFits {
 public:
  static constexpr Parameter kParameters[] = {
      htm::kProvider,
      htm::kMachine,
      htm::kBudget,
      htm::kSpending,
      kStripe,
      {.name = "fits",
       .fallback = "0",
       .summary = "elements of a transaction at most; 0: as the capacity of the machine's transactions",
       .high = 1'000'000'000},
  };
  static constexpr StrategyInfo info{
      .name = "htm_if_fits",
      .summary =
          "an update that fits is one hardware transaction; any other takes the locks of blocks, one after "
          "another",
      .updates = Consistency::block,
      .reads = Consistency::element,
      .snapshots = Consistency::block,
      .parameters = kParameters,
      .check = [](const Parameters& given) { htm::check_machine("htm_if_fits", given); },
      .updates_over = stripe_consistency,
  };

  static std::optional<std::string> why_not() { return htm::Transactions::why_not(); }
  static std::optional<std::string> why_not(const Parameters& parameters) {
    return htm::Transactions::why_not(parameters);
  }

  // Throws std::invalid_argument for a provider that cannot run on this machine, and if what fits is to be
  // measured and cannot be.
  explicit HtmIfFits(const Parameters& parameters)
      : transactions_("htm_if_fits", parameters),
        block_(static_cast<std::size_t>(parameters.integer("block"))),
        fits_(static_cast<std::size_t>(parameters.integer("fits"))),
        capacity_(fits_ == 0 ? capacity_of(parameters.text("machine")) : probe::UpdateCapacity{}) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    using T = typename R::Value;
    transactions_.check(update);
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes = stripes_of(memory.size());
    const htm::ElidedUpdate<T> whole{update, memory, 0, transactions_.processor};
    const bool fits = fits_ != 0 ? update.touched() <= fits_ : htm::fits(update, capacity_, stripes.blocks);
    htm::update_whole_or_by_block(
        fits, transactions_.budget, stats,
        [&](htm::Budget budget) {
          return transactions_.provider.try_whole(whole, htm::TouchedLocks<T>(stripes, update), budget,
                                                  stats);
        },
        [&] {
          if (auto* const processor = transactions_.processor) {
            return htm::emulated::update_by_block(processor->here(), stripes, whole, stats);
          }
          update_by_block(stripes, update, memory, stats);
        });
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Stripes& stripes = stripes_of(memory.size());
    if (auto* const processor = transactions_.processor) {
      return htm::emulated::read_by_block(processor->here(), stripes, memory, reading, stats);
    }
    read_by_block(stripes, reading, std::span<const typename R::Value>(memory), stats);
  }

  // Notifies an emulated processor of what a real one would see: the reader reads the variable's memory.
  template <Region R>
  void note_read(R& region) {
    if (transactions_.processor == nullptr) return;
    const auto memory = region.memory(Holding::nothing);
    transactions_.notice({htm::emulated::Access::read(memory.data(), memory.size_bytes())});
  }

  // The same for a reader of some rows.
  template <Region R>
  void note_rows(R& region, std::span<const NonZero<typename R::Value>> inputs, std::size_t width) {
    if (transactions_.processor == nullptr) return;
    transactions_.notice_rows<typename R::Value>(region.memory(Holding::nothing), inputs, width);
  }

 private:
  static probe::UpdateCapacity capacity_of(std::string_view machine) {
    try {
      return probe::update_capacity(machine);
    } catch (const probe::NotMeasured& reason) {
      throw std::invalid_argument(
          std::string("htm_if_fits cannot measure how much fits into a transaction here, so name `fits`: ") +
          reason.what());
    }
  }

  const Stripes& stripes_of(std::size_t elements) {
    return stripes_.of(elements, elements, kFittedStripe.of(block_, elements));
  }

  const htm::Transactions transactions_;
  const std::size_t block_, fits_;
  const probe::UpdateCapacity capacity_;  // if `fits_` is 0
  LazyBySize<Stripes> stripes_;
};

}  // namespace tmflow
