// How large an update may be that one transaction of a machine makes.
#pragma once

#include <cstddef>
#include <string_view>

#include "tmflow/probe/budget.hpp"
#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {

// The largest numbers of neighbouring lines that one transaction can write, and that it can touch if it
// writes half of them and reads the others.
struct UpdateCapacity {
  std::size_t line_bytes;  // a power of two
  std::size_t written_lines, touched_lines;
};

// Throws NotMeasured.
UpdateCapacity find_update_capacity(Transactor& transactor, Budget budget);

// That of the emulated machine of these numbers, or of this machine's own processor if there are none. It is
// measured once in a process and takes about a second; concurrent callers wait. Throws NotMeasured, and
// std::invalid_argument for impossible numbers; the next call then measures again.
UpdateCapacity update_capacity(std::string_view machine);

}  // namespace tmflow::probe
