#include "tmflow/adaptive/asymmetric_fence.hpp"

#if defined(__linux__)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace tmflow::adaptive {
namespace {

#if defined(__linux__)
bool membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

bool registered() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }
bool all_fence() noexcept { return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED); }
#else
bool registered() noexcept { return false; }
bool all_fence() noexcept { return false; }
#endif

}  // namespace

const bool AsymmetricFence::kernel_fences = registered();

void AsymmetricFence::heavy() noexcept {
  fence(std::memory_order_seq_cst);
  if (kernel_fences) all_fence();  // a process that has registered is never refused
}

}  // namespace tmflow::adaptive
