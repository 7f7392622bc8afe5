// How transactions wait in the explorer, in place of src/stm/waiting.cc.
//
// Any waiting time is as good as none: an attempt that is repeated before another thread has changed anything
// that it read fails again, by the same steps. So every wait is a wait for such a change.
#include "explorer.hpp"
#include "tmflow/stm/contender.hpp"

namespace tmflow::stm {

void give_way() noexcept { explore::wait(); }
void wait_turns(std::uint64_t) noexcept { explore::wait(); }

}  // namespace tmflow::stm
