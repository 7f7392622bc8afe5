// Copies of the strategies that cut a variable into blocks, each with a likely bug.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tmflow/combining/publications.hpp"
#include "tmflow/core/blocks.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::mutants {

// striped that forgets the last block if it is short.
struct SkipsTheShortBlock {
  std::size_t block;

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) const {
    const std::lock_guard held(region.mutex());
    const auto memory = region.memory(Holding::mutex);
    for (std::size_t number = 0; number < memory.size() / block; ++number) {
      update(memory, number * block, block);
    }
    stats.count_update();
  }
};

// striped that releases a block's lock before it updates the block.
class BlockReleasedEarly {
 public:
  BlockReleasedEarly(std::size_t elements, std::size_t length)
      : blocks_{elements, length}, locks_(blocks_.count()) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    for (std::size_t number = 0; number < blocks_.count(); ++number) {
      {
        const std::lock_guard held(locks_[number]);
      }
      update(memory, blocks_.first(number), blocks_.size(number));
    }
    stats.count_update();
  }

 private:
  const Blocks blocks_;
  std::vector<SpinLock> locks_;
};

enum class CombiningBug {
  none,
  marks_first,   // a block is marked as holding an update before it does
  own_twice,     // a thread's update is applied in addition to the published ones, which include it
  leaves_early,  // a locked block is left to its holder, which may not know of the update
  keeps_others,  // the updates of others are marked as applied, but are not
};

// combining without its order of blocks.
template <CombiningBug kBug, template <class> class Atom = std::atomic>
class FaultyCombining {
 public:
  FaultyCombining(std::size_t elements, std::size_t length)
      : blocks_{elements, length}, state_(blocks_.count()) {}

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    const Publication publication(region.memory(Holding::nothing), update);
    typename Board<Atom>::Seat own(board_, publication);
    for (std::size_t number = 0; number < blocks_.count(); ++number) {
      Block& block = state_[number];
      if (kBug == CombiningBug::leaves_early && block.lock.taken()) continue;
      const std::lock_guard held(block.lock);
      if (own.is_in(block.in.load(std::memory_order_acquire))) continue;
      const auto in = block.in.load(std::memory_order_relaxed), announced = board_.announced();
      auto pending = in ^ announced;
      if (kBug == CombiningBug::keeps_others) pending &= ~own.others(pending);
      if (kBug == CombiningBug::marks_first) block.in.store(announced, std::memory_order_release);
      board_.carry_out(pending, blocks_.first(number), blocks_.size(number));
      if (kBug == CombiningBug::own_twice) publication(blocks_.first(number), blocks_.size(number));
      if (kBug != CombiningBug::marks_first) block.in.store(announced, std::memory_order_release);
    }
    stats.count_update();
  }

 private:
  struct Block {
    BasicSpinLock<Atom> lock;
    Atom<typename Board<Atom>::Bits> in{0};
  };

  const Blocks blocks_;
  std::vector<Block> state_;
  Board<Atom> board_;
};

// striped whose read takes no lock.
template <class S>
struct ReadsUnlocked : S {
  using S::S;

  template <Region R>
  static void read(R& region, const Reading<typename R::Value>& reading, ThreadStats&) {
    const auto memory = region.memory(Holding::nothing);
    reading(memory, 0, memory.size());
  }
};

}  // namespace tmflow::mutants
