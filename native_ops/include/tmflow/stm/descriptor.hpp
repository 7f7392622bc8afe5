// The descriptor of a thread for its transactions and their competitors.
#pragma once

#include "tmflow/measure/counters.hpp"
#include "tmflow/stm/contender.hpp"
#include "tmflow/stm/read_set.hpp"
#include "tmflow/stm/stripe_index.hpp"
#include "tmflow/stm/write_set.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::stm {

// Everything except the contender belongs to the thread.
template <template <class> class Atom = std::atomic>
class alignas(kCacheLine) BasicDescriptor : public Contender<Atom> {
 public:
  BasicDescriptor();
  BasicDescriptor(const BasicDescriptor&) = delete;
  BasicDescriptor& operator=(const BasicDescriptor&) = delete;

  static BasicDescriptor& of_this_thread();

  // Called repeatedly while another transaction owns a lock that this one needs.
  TMFLOW_STM_INLINE static void await(Turn) noexcept { wait_turns(1); }

  alignas(kCacheLine) BasicReadSet<Atom> reads;
  BasicWriteSet<Atom> writes;
  StripeIndex index;
  bool busy = false;
};

using Descriptor = BasicDescriptor<>;

// This thread's descriptor, for one transaction. Throws std::logic_error if the thread is already in a
// transaction: a nested transaction must receive the outer one.
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
