// combining: the owner of a block's lock also applies the updates that others have published.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "tmflow/combining/publications.hpp"
#include "tmflow/core/blocks.hpp"
#include "tmflow/core/lazy_by_size.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/spin_lock.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

// How long a thread waits voluntarily for others, in pauses (about 50 ns each). The values were measured: see
// docs/strategies/blocks.md. Correctness does not depend on them; a test that controls the schedule sets 0.
template <template <class> class Atom>
struct CombiningPatience {
  static constexpr int kForCompany = 30;  // before it begins, if it met another thread at its last update
  static constexpr int kForOthers = 100;  // in an update, for blocks that others are about to process
};

// Flat combining (Hendler, Incze, Shavit, Tzafrir: "Flat combining and the synchronization-parallelism
// tradeoff", SPAA 2010), block by block. That is for updates of the whole variable; those of rows: see below.
// A thread publishes its update and looks which other threads have published. They divide the blocks: each
// processes those from the start of its seat to the start of the next seat. At each of its blocks it acquires
// the lock and applies all published updates that the block lacks. Then it visits the other blocks: those
// that still lack its update after a while it processes itself. The update is complete when all blocks
// contain it, whichever threads applied it.
//
// So each of two contending threads keeps to its half of the variable, whose lines stay in its cache, and a
// block is loaded there once for two updates. A thread that met another one waits a moment for it before it
// begins: two threads out of step would each apply the other's update alone. It traverses its part
// alternately forwards and backwards, because what it touched last is nearest.
//
// Contract: updates of a block are serialised and none is lost; two blocks may see two updates in different
// orders. If one block covers the variable, updates of the variable are serialised. A snapshot has each block
// as it was between two updates of it. There is no ordering with readers outside the strategy, or with
// operations that replace the variable's memory: an update that overlaps an assignment of the whole variable
// may be lost. An update applies to the memory that its own thread fetched.
//
// Exactly once: `in` of a block has a bit for each seat that shows which publications the block contains. It
// changes only under the block's lock, after they are applied. Bit s of `announced` toggles when seat s
// publishes, and its thread stays until bit s of every block's `in` has followed. So under the lock the two
// bits differ only if the block lacks the seat's current publication. A read of `announced` returns no older
// value than that of the last holder who read it (whose read happens before this one), so no bit differs
// because of an old value.
//
// No thread reads a publication after its thread has left: a holder reads it only if its bit differs, and
// before the bit of this block's `in` follows; the thread leaves after it has seen the bits of all blocks
// follow.
//
// No thread waits while it holds a lock. Among published updates, a thread that waits for a block waits for
// at most one holder, if that one began after the publication, and otherwise also for the next one, which
// applies the update. Updates of rows and reads hold a block without applying what is published, so a thread
// may also wait for any number of these.
//
// An update of rows locks one after another the blocks that it touches, and is not published. It is neither
// in `announced` nor in `in`, so it does not disturb what holders compare.
//
// Counted as contention: the blocks whose lock was owned when the update first reached them.
//
// Memory ordering: a block's lock acquires and releases. The publisher learns without the lock that a block
// contains its update: the store to `in` releases what was applied, and its load acquires it. The
// publications: see Board.
template <template <class> class Atom = std::atomic>
class BasicCombining {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "block",
       .fallback = "0",
       .summary = "elements per lock; 0: as fits the size of the variable",
       .high = 1'000'000'000},
  };
  // As docs/speed.md finds fast: for large variables, a block as large as the nearest cache.
  static constexpr FittedBlock kFitted{.share = 8, .shortest = 4096, .longest = 16'384};
  static constexpr StrategyInfo info{
      .name = "combining",
      .summary =
          "flat combining: the holder of a block's lock also applies the updates that others published",
      .updates = Consistency::block,
      .reads = Consistency::element,
      .snapshots = Consistency::block,
      .parameters = kParameters,
      .updates_over =
          [](const Parameters& given, std::size_t n) {
            const auto block = static_cast<std::size_t>(given.integer("block"));
            return consistency_in_parts(static_cast<std::int64_t>(kFitted.of(block, n)), n);
          },
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicCombining(std::size_t block) : block_(block) {}
  explicit BasicCombining(const Parameters& parameters)
      : BasicCombining(static_cast<std::size_t>(parameters.integer("block"))) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    Variable& variable = variables_.of(memory.size(), memory.size(), kFitted.of(block_, memory.size()));
    const bool backwards = stats.updates() % 2 != 0;
    stats.count(Contention::taken_blocks,
                update.rows != nullptr ? variable.apply_rows(memory, update, backwards, stats)
                                       : variable.apply(Publication(memory, update), backwards, stats));
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    const Variable& variable = variables_.of(memory.size(), memory.size(), kFitted.of(block_, memory.size()));
    for (std::size_t number = 0; number < variable.blocks.count(); ++number) {
      const TimedLockGuard held(variable.state[number].lock, stats);
      reading(memory, variable.blocks.first(number), variable.blocks.size(number));
    }
  }

 private:
  using Seat = typename Board<Atom>::Seat;
  using Bits = typename Board<Atom>::Bits;

  struct alignas(kCacheLine) Block {
    BasicSpinLock<Atom> lock;
    Atom<typename Board<Atom>::Bits> in{0};  // the publications that it contains

    bool has(const Seat& seat) const noexcept { return seat.is_in(in.load(std::memory_order_acquire)); }
  };

  struct Variable {
    Variable(std::size_t elements, std::size_t length)
        : blocks{elements, length}, state(std::make_unique<Block[]>(blocks.count())) {}

    // Returns the number of blocks whose lock was owned.
    std::int64_t apply(const Publication& publication, bool backwards, ThreadStats& stats) {
      const std::size_t count = blocks.count();
      if (count == 0) return 0;
      if (count == 1 && state[0].lock.try_lock()) {  // no other thread can help, so it is not published
        const TimedLockGuard held(state[0].lock, stats, std::adopt_lock);
        carry_out(0);
        publication(0, blocks.elements);
        return 0;
      }
      Seat own(board, publication);
      const std::size_t start = start_of(own.number(), count);
      const Bits company = company_of(own, state[start]);
      const std::size_t part = part_of(start, company, count);
      bool met = company != 0, all_in = part == count;
      std::int64_t taken = 0;
      for (std::size_t step = 0; step < part; ++step) {
        const std::size_t number = (start + (backwards ? part - 1 - step : step)) % count;
        if (state[number].has(own)) {
          met = true;
        } else if (state[number].lock.try_lock()) {
          met |= own.others(carry_out_and_unlock(number, stats)) != 0;
        } else {
          all_in = false;
          ++taken;
        }
      }
      own.had_company() = met;
      if (!all_in) see_to_the_rest(own, start + part, count - part, stats);
      return taken;
    }

    // Only the blocks with rows, each under its lock. The update is not published: a thread that helps would
    // have to look at every block of the variable.
    template <class T>
    std::int64_t apply_rows(std::span<T> memory, const GradientDescent<T>& update, bool backwards,
                            ThreadStats& stats) {
      std::int64_t taken = 0;
      for_each_touched(blocks, update, backwards, [&](std::size_t number, std::size_t row) {
        BasicSpinLock<Atom>& lock = state[number].lock;
        const auto run = [&](auto... adopt) {
          const TimedLockGuard held(lock, stats, adopt...);
          update(memory, blocks.first(number), blocks.size(number), row);
        };
        if (lock.try_lock()) return run(std::adopt_lock);
        ++taken;
        run();
      });
      return taken;
    }

    // All blocks from `begin` on, of which the first `of_others` are left to others for a while.
    void see_to_the_rest(const Seat& own, std::size_t begin, std::size_t of_others, ThreadStats& stats) {
      int patience = CombiningPatience<Atom>::kForOthers;
      for (std::size_t step = 0; step < blocks.count(); ++step) {
        const std::size_t number = (begin + step) % blocks.count();
        if (state[number].has(own)) continue;
        if (step < of_others) leave_to_others(state[number], own, patience, stats);
        if (lock_unless_in(state[number], own, stats)) carry_out_and_unlock(number, stats);
      }
    }

    // The other seats with publications that the block lacks.
    Bits company_of(Seat& own, const Block& block) const noexcept {
      for (int turn = own.had_company() ? CombiningPatience<Atom>::kForCompany : 0;; --turn) {
        const Bits others = own.others(board.announced() ^ block.in.load(std::memory_order_relaxed));
        if (others != 0 || turn == 0) return others;
        pause_processor();
      }
    }

    // The number of blocks from `start` to the first start of another seat.
    static std::size_t part_of(std::size_t start, Bits company, std::size_t count) noexcept {
      std::size_t part = count;
      for (; company != 0; company &= company - 1) {
        const std::size_t other = start_of(static_cast<std::size_t>(std::countr_zero(company)), count);
        if (other != start) part = std::min(part, (other + count - start) % count);
      }
      return part;
    }

    // Seats 0, 1, 2, 3 start at 0, 1/2, 1/4, 3/4 of the blocks, and so on: the seats in use have low numbers
    // and their starts are far apart.
    static std::size_t start_of(std::size_t seat, std::size_t count) noexcept {
      std::size_t reversed = 0;
      for (std::size_t bit = 1; bit < Board<Atom>::kSeats; bit *= 2) {
        reversed = 2 * reversed + (seat & 1);
        seat /= 2;
      }
      return count * reversed / Board<Atom>::kSeats;
    }

    static void leave_to_others(const Block& block, const Seat& own, int& patience,
                                ThreadStats& stats) noexcept {
      const TimedWait waited(stats);
      for (; patience > 0 && !block.has(own); --patience) pause_processor();
    }

    // Whether this thread now owns the lock; if not, the block contains the update.
    static bool lock_unless_in(Block& block, const Seat& own, ThreadStats& stats) noexcept {
      if (block.has(own)) return false;
      const TimedWait waited(stats);
      for (Turn turn;; ++turn) {
        if (!block.lock.taken() && block.lock.try_lock()) return true;
        if (block.has(own)) return false;
        Waiting<Atom>::once(turn);
      }
    }

    Bits carry_out_and_unlock(std::size_t number, ThreadStats& stats) noexcept {
      const TimedLockGuard held(state[number].lock, stats, std::adopt_lock);
      return carry_out(number);
    }

    // Under the block's lock: applies the publications that the block lacks, and returns their seats.
    Bits carry_out(std::size_t number) noexcept {
      Block& block = state[number];
      const auto in = block.in.load(std::memory_order_relaxed), announced = board.announced();
      board.carry_out(in ^ announced, blocks.first(number), blocks.size(number));
      block.in.store(announced, std::memory_order_release);
      return in ^ announced;
    }

    const Blocks blocks;
    const std::unique_ptr<Block[]> state;
    Board<Atom> board;
  };

  const std::size_t block_;
  LazyBySize<Variable, Atom> variables_;
};

using Combining = BasicCombining<>;

}  // namespace tmflow
