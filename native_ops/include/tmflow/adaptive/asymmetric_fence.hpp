// An asymmetric fence: one side pays for both.
#pragma once

#include <atomic>

#include "tmflow/sync/fence.hpp"

namespace tmflow::adaptive {

// Two threads each write a word and then read the other's: at least one of them must see the other's write.
// Both would need a full fence in between, which costs as much as a small update. On Linux the kernel can
// make every running thread of the process execute a fence (membarrier). The rare side then calls `heavy`; on
// the other side the compiler only has to keep the order.
//
// Memory ordering: what comes before and after `light` in one thread, and before and after `heavy` in
// another, is ordered as by two full fences.
struct AsymmetricFence {
  static void light() noexcept {
    if (kernel_fences) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      fence(std::memory_order_seq_cst);
    }
  }
  static void heavy() noexcept;

 private:
  static const bool kernel_fences;  // false until it has been queried: then light is a full fence
};

}  // namespace tmflow::adaptive
