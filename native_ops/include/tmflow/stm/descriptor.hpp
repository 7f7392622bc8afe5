// A thread as its transactions, and their enemies, know it.
#pragma once

#include "tmflow/stats.hpp"
#include "tmflow/stm/contender.hpp"
#include "tmflow/stm/read_set.hpp"
#include "tmflow/stm/stripe_index.hpp"
#include "tmflow/stm/write_set.hpp"

namespace tmflow::stm {

// The rest of it than the contender belongs to the thread.
class alignas(kCacheLine) Descriptor : public Contender<> {
 public:
  Descriptor();
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  // Once more while another transaction owns what this one needs.
  TMFLOW_STM_INLINE static void await(int) noexcept { wait_turns(1); }

  alignas(kCacheLine) ReadSet reads;
  WriteSet writes;
  StripeIndex index;
  bool busy = false;
};

// This thread's descriptor, for one transaction. Throws std::logic_error if the thread is in a transaction
// already: a nested one has to be told of the outer one.
class Claim {
 public:
  Claim();
  TMFLOW_STM_INLINE ~Claim() { descriptor.busy = false; }
  Claim(const Claim&) = delete;
  Claim& operator=(const Claim&) = delete;

  Descriptor& descriptor;
};

}  // namespace tmflow::stm
