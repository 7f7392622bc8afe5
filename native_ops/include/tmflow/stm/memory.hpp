// Rare memory operations of transactions, for the one source that instantiates them (src/stm/runtime.cc, and
// another one in the tests with other atomics), so that two builds of the loops do not share them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "tmflow/stm/domain.hpp"

namespace tmflow::stm {

template <template <class> class Atom>
BasicDomain<Atom>::BasicDomain(std::size_t locks)
    : mask_(locks - 1), memory_(new Lock[locks]()), locks_(memory_.get()) {
  if (locks == 0 || (locks & mask_) != 0) {
    throw std::invalid_argument("a table of locks must have a power of two of them, not " +
                                std::to_string(locks));
  }
}

template <template <class> class Atom>
BasicDomain<Atom>& BasicDomain<Atom>::shared() {
  static BasicDomain& domain = *new BasicDomain;  // threads may outlive static objects
  return domain;
}

template <template <class> class Atom>
void BasicReadSet<Atom>::grow() {
  const std::size_t capacity = capacity_ == 0 ? 1024 : 2 * capacity_;
  std::unique_ptr<Read[]> memory(new Read[capacity]);
  std::copy(begin(), end(), memory.get());
  memory_ = std::move(memory);
  reads_ = memory_.get();
  capacity_ = capacity;
}

template <template <class> class Atom>
void BasicWriteSet<Atom>::grow() {
  memory_.reserve(memory_.size() + 1);
  block_addresses_.reserve(memory_.size() + 1);
  std::unique_ptr<StripeEntry[]> block(new StripeEntry[kBlock]);
  for (std::size_t i = 0; i < kBlock; ++i) block[i].owner = &owner_;
  block_addresses_.push_back(block.get());
  memory_.push_back(std::move(block));
  blocks_ = block_addresses_.data();
}

// The block of index `size_`, which is the first index of a block.
template <template <class> class Atom>
void BasicWriteSet<Atom>::next_block() {
  if (size_ / kBlock == memory_.size()) grow();
  free_ = blocks_[size_ / kBlock];
  end_ = free_ + kBlock;
}

template <template <class> class Atom>
BasicDescriptor<Atom>::BasicDescriptor() : writes(*this) {}

template <template <class> class Atom>
BasicClaim<Atom>::BasicClaim() : descriptor(BasicDescriptor<Atom>::of_this_thread()) {
  if (descriptor.busy) {
    throw std::logic_error("this thread is in a transaction already: use nested(transaction, body)");
  }
  descriptor.busy = true;
}

}  // namespace tmflow::stm
