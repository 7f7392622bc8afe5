// A place for each thread that lives, small and its own.
#pragma once

#include <cstddef>

namespace tmflow::adaptive {

// The places are numbered from 0; that of a thread that has ended goes to the next one that asks. Threads
// beyond kPlaces - 1 share the last one.
//
// Memory ordering: taking a place acquires what its last owner did before it gave the place back.
inline constexpr std::size_t kPlaces = 64;

std::size_t own_place() noexcept;

constexpr bool is_shared(std::size_t place) noexcept { return place == kPlaces - 1; }

}  // namespace tmflow::adaptive
