// The counters of one worker on one variable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tmflow {

// x86 fetches lines of 64 bytes in pairs; POWER's are 128 bytes.
inline constexpr std::size_t kCacheLine = 128;

// Alone on its cache lines: counting by one worker does not slow another one down.
//
// Memory ordering: relaxed, because a counter publishes nothing but itself. The addition is atomic although
// each object belongs to one worker, so that a caller who gives two threads the same worker loses no count.
class alignas(kCacheLine) ThreadStats {
 public:
  void count_update() noexcept { updates_.fetch_add(1, std::memory_order_relaxed); }
  std::int64_t updates() const noexcept { return updates_.load(std::memory_order_relaxed); }
  void reset() noexcept { updates_.store(0, std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> updates_{0};
};

}  // namespace tmflow
