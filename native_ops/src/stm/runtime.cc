// What transactions need now and then: memory, a descriptor, time. The part of the STM that is not in
// headers.
#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tmflow/spin_lock.hpp"
#include "tmflow/stm/atomically.hpp"

namespace tmflow::stm {

Domain::Domain(std::size_t locks) : mask_(locks - 1), memory_(new Lock[locks]()), locks_(memory_.get()) {
  if (locks == 0 || (locks & mask_) != 0) {
    throw std::invalid_argument("a table of locks must have a power of two of them, not " +
                                std::to_string(locks));
  }
}

Domain& Domain::shared() {
  static Domain& domain = *new Domain;  // threads may outlive what is destroyed at the end
  return domain;
}

void ReadSet::grow() {
  const std::size_t capacity = capacity_ == 0 ? 1024 : 2 * capacity_;
  std::unique_ptr<Read[]> memory(new Read[capacity]);
  std::copy(begin(), end(), memory.get());
  memory_ = std::move(memory);
  reads_ = memory_.get();
  capacity_ = capacity;
}

void WriteSet::grow() {
  memory_.reserve(memory_.size() + 1);
  block_addresses_.reserve(memory_.size() + 1);
  std::unique_ptr<StripeEntry[]> block(new StripeEntry[kBlock]);
  for (std::size_t i = 0; i < kBlock; ++i) block[i].owner = &owner_;
  block_addresses_.push_back(block.get());
  memory_.push_back(std::move(block));
  blocks_ = block_addresses_.data();
}

// The block of index `size_`, which is the first of a block.
void WriteSet::next_block() {
  if (size_ / kBlock == memory_.size()) grow();
  free_ = blocks_[size_ / kBlock];
  end_ = free_ + kBlock;
}

void StripeIndex::resize(int bits) {
  const std::size_t slots = std::size_t{1} << bits;
  memory_.reset(new Slot[slots]());
  slots_ = memory_.get();
  mask_ = slots - 1;
  shift_ = 64 - bits;
}

// Into twice the room; the new slots are of epoch 0, which is never the table's.
void StripeIndex::grow() {
  const std::size_t slots = mask_ + 1;
  const std::unique_ptr<Slot[]> old = std::move(memory_);
  resize(64 - shift_ + 1);
  for (std::size_t i = 0; i < slots; ++i) {
    if (old[i].epoch != epoch_) continue;
    std::size_t at = home_of(old[i].stripe);
    while (slots_[at].epoch == epoch_) at = (at + 1) & mask_;
    slots_[at] = old[i];
  }
}

void StripeIndex::forget() noexcept {
  std::fill(slots_, slots_ + mask_ + 1, Slot{});
  epoch_ = 1;
}

void give_way() noexcept { std::this_thread::yield(); }

void wait_turns(std::uint64_t turns) noexcept {
  constexpr std::uint64_t kBetweenYields = 64;
  thread_local std::uint64_t waited = 0;
  for (; turns > 0; --turns) {
    pause_processor();
    if (++waited % kBetweenYields == 0) give_way();
  }
}

Descriptor::Descriptor() : writes(*this) {}

namespace {

// The descriptors of threads that have ended, for threads to come. All are kept: see Descriptor.
class Pool {
 public:
  static Pool& shared() {
    static Pool& pool = *new Pool;
    return pool;
  }

  Descriptor& take() {
    const std::lock_guard held(mutex_);
    idle_.reserve(all_.size() + 1);  // so that giving back needs no memory
    if (idle_.empty()) {
      all_.reserve(all_.size() + 1);
      all_.push_back(new Descriptor);
      idle_.push_back(all_.back());
    }
    Descriptor& descriptor = *idle_.back();
    idle_.pop_back();
    return descriptor;
  }

  void give_back(Descriptor& descriptor) noexcept {
    const std::lock_guard held(mutex_);
    idle_.push_back(&descriptor);
  }

 private:
  std::mutex mutex_;
  std::vector<Descriptor*> all_, idle_;
};

struct OfThread {
  Descriptor& descriptor = Pool::shared().take();
  ~OfThread() { Pool::shared().give_back(descriptor); }
};

Descriptor& of_this_thread() {
  thread_local OfThread own;
  return own.descriptor;
}

}  // namespace

Claim::Claim() : descriptor(of_this_thread()) {
  if (descriptor.busy) {
    throw std::logic_error("this thread is in a transaction already: use nested(transaction, body)");
  }
  descriptor.busy = true;
}

void count_commit(ThreadStats& stats) noexcept { stats.count_commit(); }

void count_abort(ThreadStats& stats, Cause cause) { stats.count_abort(static_cast<std::uint64_t>(cause)); }

}  // namespace tmflow::stm
