// A fence whose price one side pays for both.
#pragma once

#include <atomic>

#include "tmflow/sync/fence.hpp"

namespace tmflow::adaptive {

// Two threads each write a word and then read the other one's: at least one of them must see what the other
// wrote. Both would need a full fence in between, which costs as much as a small update. Where the kernel can
// make every running thread of the process fence (Linux: membarrier), the side that seldom comes calls
// `heavy`, and for the other side it is enough that the compiler keeps the order.
//
// Memory ordering: between what comes before and after `light` in one thread, and before and after `heavy` in
// another, there is the order that two full fences would make.
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
  static const bool kernel_fences;  // false until it has been asked for: then light is a full fence
};

}  // namespace tmflow::adaptive
