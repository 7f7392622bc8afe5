// A wait may last for more pauses than an integer can count.
#include "tmflow/sync/waiting.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <concepts>
#include <limits>

namespace tmflow {
namespace {

constexpr std::uint32_t kLast = std::numeric_limits<std::uint32_t>::max(), kLastSigned = kLast / 2;

constexpr Turn after(std::uint32_t number) {
  Turn turn(number);
  return ++turn;
}

// The compiler evaluates these, and rejects undefined overflow.
static_assert(after(kLastSigned).is_multiple_of(Waiting<std::atomic>::kTurns));
static_assert(after(kLast).is_multiple_of(Waiting<std::atomic>::kTurns));
static_assert(!after(kLast - 1).is_multiple_of(Waiting<std::atomic>::kTurns));

// No loop can wait with a signed number.
static_assert(!std::convertible_to<int, Turn> && !std::convertible_to<Turn, int>);

TEST(Waiting, GoesOnWhereTheNumberOfItsPausesWrapsAround) {
  for (const std::uint32_t last : {kLastSigned, kLast}) {
    const std::uint32_t first = last - 2 * Waiting<std::atomic>::kTurns + 1;
    int yields = 0, pauses = 0;
    for (Turn turn(first); pauses < 4 * static_cast<int>(Waiting<std::atomic>::kTurns); ++turn, ++pauses) {
      Waiting<std::atomic>::once(turn);
      yields += turn.is_multiple_of(Waiting<std::atomic>::kTurns);
    }
    EXPECT_EQ(yields, 4);
  }
}

}  // namespace
}  // namespace tmflow
