// How the transactions wait, in the place of src/stm/runtime.cc.
//
// A random time is as good as any other, and so is none: an attempt that is repeated before another thread
// has changed anything that it read fails again, by the same steps. So all waiting is waiting for such a
// change.
#include "explorer.hpp"
#include "tmflow/stm/contender.hpp"

namespace tmflow::stm {

void give_way() noexcept { explore::wait(); }
void wait_turns(std::uint64_t) noexcept { explore::wait(); }

}  // namespace tmflow::stm
