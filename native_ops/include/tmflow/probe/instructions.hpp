// The transactional instructions of this processor, compiled with special flags (src/probe/).
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
  // The processor's clock before an empty transaction, inside it, and after its commit; false if it aborted.
  bool (*timed_commit)(std::uint64_t ticks[3]);
  // The clock before and after a transaction that aborts itself immediately.
  void (*timed_abort)(std::uint64_t ticks[2]);
  std::uint64_t (*ticks)();
};

// A null pointer if the program is compiled for a processor family without transactions.
const Instructions* instructions();

}  // namespace tmflow::probe
