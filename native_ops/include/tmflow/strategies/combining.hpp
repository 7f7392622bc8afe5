// combining: who holds a block's lock applies what others have published, too.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tmflow/blocks.hpp"
#include "tmflow/held.hpp"
#include "tmflow/per_size.hpp"
#include "tmflow/publications.hpp"
#include "tmflow/spin_lock.hpp"
#include "tmflow/strategy.hpp"

namespace tmflow {

// Flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the synchronization-parallelism
// tradeoff", SPAA 2010), block by block. A thread publishes its update and goes over the blocks from a start
// of its own. At each that its update is not in yet it takes the lock and applies all updates that are
// published and not in. It is done when its update is in all blocks, by whomever. So of two threads in
// contention each keeps to its half of the variable, whose lines stay in its cache, and a block is brought
// there once for two updates.
//
// Contract: updates of a block happen one after another and none is lost; two blocks may see two updates in
// different orders. With block 0 the whole variable is one block: then updates of the variable happen one
// after another. A snapshot has each block as it was between two updates of it. The readers who take no part,
// and whoever replaces the variable's memory, are not waited for: an update that overlaps an assignment of
// the whole variable may be lost. An update applies to the memory that its own thread fetched.
//
// Exactly once: `in` of a block says by a bit for each seat which publications are in it, and changes only
// under the block's lock, after they are. Bit s of `announced` toggles when seat s publishes, and its thread
// stays until bit s of every block's `in` has followed. So under the lock the two bits differ only if the
// seat's present publication is not in. `announced` cannot be read older than by the last holder of the lock
// (its reading happens before this one), so no bit differs because of an old value.
//
// Nobody looks at a publication after its thread has left: a holder looks at it only if its bit differs, and
// before the bit of this block's `in` follows; the thread leaves after it has seen that of every block.
//
// Nobody waits while holding a lock. A thread that waits for a block waits for one holder at most, if that
// one began after the publication, and else for the next one: it is the first to come that applies the
// update.
//
// Retries: the blocks that were taken when the update first came by.
//
// Memory ordering: a block's lock acquires and releases. The publisher learns without the lock that its
// update is in: the store to `in` releases what was applied, and its load acquires it. The publications: see
// Board.
template <template <class> class Atom = std::atomic>
class BasicCombining {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "block",
       .fallback = "2048",
       .summary = "elements per lock; 0: the whole variable",
       .high = 1'000'000'000},
  };
  static constexpr StrategyInfo info{
      .name = "combining",
      .summary = "who holds a block's lock applies what others have published, too",
      .updates = Promise::block,
      .reads = Promise::element,
      .snapshots = Promise::block,
      .parameters = kParameters,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicCombining(std::size_t block) : block_(block) {}
  explicit BasicCombining(const Parameters& parameters)
      : BasicCombining(static_cast<std::size_t>(parameters.integer("block"))) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    Variable& variable = variables_.of(memory.size(), memory.size(), block_);
    stats.count_retries(variable.apply(Publication(memory, update), stats));
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Variable& variable = variables_.of(memory.size(), memory.size(), block_);
    for (std::size_t number = 0; number < variable.blocks.count(); ++number) {
      const HeldLock held(variable.state[number].lock, stats);
      reading(memory, variable.blocks.first(number), variable.blocks.size(number));
    }
  }

 private:
  using Seat = typename Board<Atom>::Seat;

  struct alignas(kCacheLine) Block {
    BasicSpinLock<Atom> lock;
    Atom<typename Board<Atom>::Bits> in{0};  // whose publications

    bool has(const Seat& seat) const noexcept { return seat.is_in(in.load(std::memory_order_acquire)); }
  };

  struct Variable {
    Variable(std::size_t elements, std::size_t length)
        : blocks(elements, length), state(std::make_unique<Block[]>(blocks.count())) {}

    // The retries.
    std::int64_t apply(const Publication& publication, ThreadStats& stats) {
      const std::size_t count = blocks.count();
      if (count == 1 && state[0].lock.try_lock()) {  // nobody else can help, so it need not be published
        const HeldLock held(state[0].lock, stats, std::adopt_lock);
        carry_out(0);
        publication(0, blocks.elements);
        return 0;
      }
      const Seat own(board, publication);
      const std::size_t start = start_of(own.number(), count);
      std::size_t first_left = count, end_of_left = 0;
      std::int64_t taken = 0;
      for (std::size_t step = 0; step < count; ++step) {
        const std::size_t number = (start + step) % count;
        if (state[number].has(own)) continue;
        if (state[number].lock.try_lock()) {
          carry_out_and_unlock(number, stats);
        } else {
          first_left = std::min(first_left, step);
          end_of_left = step + 1;
          ++taken;
        }
      }
      for (std::size_t step = first_left; step < end_of_left; ++step) {
        const std::size_t number = (start + step) % count;
        if (lock_unless_in(state[number], own, stats)) carry_out_and_unlock(number, stats);
      }
      return taken;
    }

    // Seats 0, 1, 2, 3 begin at 0, 1/2, 1/4, 3/4 of the blocks, and so on: those in use are low, and far
    // apart.
    static std::size_t start_of(std::size_t seat, std::size_t count) noexcept {
      std::size_t reversed = 0;
      for (std::size_t bit = 1; bit < Board<Atom>::kSeats; bit *= 2) {
        reversed = 2 * reversed + (seat & 1);
        seat /= 2;
      }
      return count * reversed / Board<Atom>::kSeats;
    }

    // Whether the lock is taken now; if not, the update is in.
    static bool lock_unless_in(Block& block, const Seat& own, ThreadStats& stats) noexcept {
      if (block.has(own)) return false;
      const Waited waited(stats);
      for (int turn = 1;; ++turn) {
        if (!block.lock.taken() && block.lock.try_lock()) return true;
        if (block.has(own)) return false;
        Waiting<Atom>::once(turn);
      }
    }

    void carry_out_and_unlock(std::size_t number, ThreadStats& stats) noexcept {
      const HeldLock held(state[number].lock, stats, std::adopt_lock);
      carry_out(number);
    }

    // Under the block's lock.
    void carry_out(std::size_t number) noexcept {
      Block& block = state[number];
      const auto in = block.in.load(std::memory_order_relaxed), announced = board.announced();
      board.carry_out(in ^ announced, blocks.first(number), blocks.size(number));
      block.in.store(announced, std::memory_order_release);
    }

    const Blocks blocks;
    const std::unique_ptr<Block[]> state;
    Board<Atom> board;
  };

  const std::size_t block_;
  PerSize<Variable, Atom> variables_;
};

using Combining = BasicCombining<>;

}  // namespace tmflow
