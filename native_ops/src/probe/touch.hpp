// Touches memory, one byte after another, with plain loads and stores only.
#pragma once

#include <cstddef>

#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {

[[gnu::always_inline]] inline void touch(const Walk& walk) {
  for (std::size_t time = 0; time < walk.times; ++time) {
    for (std::size_t i = 0; i < walk.count; ++i) {
      volatile char* const place = walk.place(i);
      if (walk.write) {
        *place = 1;
      } else {
        static_cast<void>(*place);
      }
    }
  }
}

}  // namespace tmflow::probe
