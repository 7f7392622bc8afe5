// How transactions wait, in a separate source file so that a test can replace it.
#include "tmflow/sync/waiting.hpp"

#include <thread>

#include "tmflow/stm/contender.hpp"

namespace tmflow::stm {

void give_way() noexcept { std::this_thread::yield(); }

void wait_turns(std::uint64_t turns) noexcept {
  constexpr std::uint64_t kBetweenYields = 64;
  thread_local std::uint64_t waited = 0;
  for (; turns > 0; --turns) {
    pause_processor();
    if (++waited % kBetweenYields == 0) give_way();
  }
}

}  // namespace tmflow::stm
