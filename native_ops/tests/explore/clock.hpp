// Vector clocks: what a thread or a place in memory knows about every thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tmflow::explore {

inline constexpr int kMostThreads = 6;

struct Clock {
  std::array<std::uint32_t, kMostThreads> of{};

  std::uint32_t& operator[](int thread) noexcept { return of[static_cast<std::size_t>(thread)]; }
  std::uint32_t operator[](int thread) const noexcept { return of[static_cast<std::size_t>(thread)]; }

  void join(const Clock& other) noexcept {
    for (std::size_t i = 0; i < of.size(); ++i) of[i] = std::max(of[i], other.of[i]);
  }
};

}  // namespace tmflow::explore
