// The transactional instructions of this processor, compiled with flags of their own (src/probe/).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "tmflow/htm/elision.hpp"
#include "tmflow/probe/transactor.hpp"

namespace tmflow::probe {

struct Instructions {
  std::string_view dialect;
  bool (*enabled)();
  bool (*attempt)(std::span<const Walk> walks, htm::Ended& ended);
  // The processor's clock before an empty transaction, in it, and after its commit; false if it aborted.
  bool (*timed_commit)(std::uint64_t ticks[3]);
  // The clock before a transaction that aborts itself at once, and after it.
  void (*timed_abort)(std::uint64_t ticks[2]);
  std::uint64_t (*ticks)();
};

// A null pointer where this is compiled for a family that has none.
const Instructions* instructions();

}  // namespace tmflow::probe
