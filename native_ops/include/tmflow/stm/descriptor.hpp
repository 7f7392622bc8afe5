// A thread as its transactions, and their enemies, know it.
#pragma once

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/contender.hpp"
#include "tmflow/stm/read_set.hpp"
#include "tmflow/stm/stripe_index.hpp"
#include "tmflow/stm/write_set.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::stm {

// The rest of it than the contender belongs to the thread.
template <template <class> class Atom = std::atomic>
class alignas(kCacheLine) BasicDescriptor : public Contender<Atom> {
 public:
  BasicDescriptor();
  BasicDescriptor(const BasicDescriptor&) = delete;
  BasicDescriptor& operator=(const BasicDescriptor&) = delete;

  static BasicDescriptor& of_this_thread();

  // Once more while another transaction owns what this one needs.
  TMFLOW_STM_INLINE static void await(Turn) noexcept { wait_turns(1); }

  alignas(kCacheLine) BasicReadSet<Atom> reads;
  BasicWriteSet<Atom> writes;
  StripeIndex index;
  bool busy = false;
};

using Descriptor = BasicDescriptor<>;

// This thread's descriptor, for one transaction. Throws std::logic_error if the thread is in a transaction
// already: a nested one has to be told of the outer one.
template <template <class> class Atom>
class BasicClaim {
 public:
  BasicClaim();
  TMFLOW_STM_INLINE ~BasicClaim() { descriptor.busy = false; }
  BasicClaim(const BasicClaim&) = delete;
  BasicClaim& operator=(const BasicClaim&) = delete;

  BasicDescriptor<Atom>& descriptor;
};

}  // namespace tmflow::stm
