// spin: a private spin lock around the update, or around each part of it.
#pragma once

#include <optional>
#include <string>

#include "tmflow/sync/own_mutex.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow {

// Contract and memory ordering: those of OwnMutex.
struct Spin : OwnMutex<SpinLock> {
  static constexpr Parameter kParameters[] = {kChunk};
  static constexpr StrategyInfo info{
      .name = "spin",
      .summary = "a spin lock is held for the whole update, or for each chunk of it",
      .updates = Consistency::tensor,
      .reads = Consistency::element,
      .snapshots = Consistency::tensor,  // with a chunk: of each chunk, as for updates
      .parameters = kParameters,
      .updates_over = [](const Parameters& given,
                         std::size_t n) { return consistency_in_parts(given.integer("chunk"), n); },
  };

  Spin() = default;
  explicit Spin(const Parameters& parameters) : OwnMutex(chunk_of(parameters)) {}

  static std::optional<std::string> why_not() { return std::nullopt; }
};

}  // namespace tmflow
