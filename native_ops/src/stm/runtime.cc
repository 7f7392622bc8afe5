// The parts of the STM outside the headers, which transactions need rarely: memory and descriptors.
#include <algorithm>
#include <mutex>
#include <vector>

#include "tmflow/stm/atomically.hpp"
#include "tmflow/stm/memory.hpp"

namespace tmflow::stm {

template <std::unsigned_integral Epoch>
void BasicStripeIndex<Epoch>::resize(int bits) {
  const std::size_t slots = std::size_t{1} << bits;
  memory_.reset(new Slot[slots]());
  slots_ = memory_.get();
  mask_ = slots - 1;
  shift_ = 64 - bits;
}

// Doubles the size; the new slots have epoch 0, which the table never has.
template <std::unsigned_integral Epoch>
void BasicStripeIndex<Epoch>::grow() {
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

template <std::unsigned_integral Epoch>
void BasicStripeIndex<Epoch>::forget() noexcept {
  std::fill(slots_, slots_ + mask_ + 1, Slot{});
  epoch_ = 1;
}

template class BasicStripeIndex<std::uint32_t>;
template class BasicStripeIndex<std::uint8_t>;  // for a test

namespace {

// The descriptors of ended threads, for later threads. All are kept: see Descriptor.
class Pool {
 public:
  static Pool& shared() {
    static Pool& pool = *new Pool;
    return pool;
  }

  Descriptor& take() {
    const std::lock_guard held(mutex_);
    idle_.reserve(all_.size() + 1);  // so that releasing needs no memory
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

}  // namespace

template <>
Descriptor& Descriptor::of_this_thread() {
  thread_local OfThread own;
  return own.descriptor;
}

template class BasicDomain<std::atomic>;
template class BasicReadSet<std::atomic>;
template class BasicWriteSet<std::atomic>;
template class BasicDescriptor<std::atomic>;
template class BasicClaim<std::atomic>;

void count_commit(ThreadStats& stats, std::uint64_t retries) noexcept {
  stats.count_commit();
  stats.count(Contention::retries, static_cast<std::int64_t>(retries));
}

void count_abort(ThreadStats& stats, Cause cause) noexcept {
  stats.count_abort(static_cast<std::uint64_t>(cause));
}

}  // namespace tmflow::stm
