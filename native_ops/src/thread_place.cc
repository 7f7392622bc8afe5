#include "tmflow/adaptive/thread_place.hpp"

#include <atomic>
#include <bit>
#include <cstdint>

namespace tmflow::adaptive {
namespace {

static_assert(kPlaces == 64, "a bit for each");
constinit std::atomic<std::uint64_t> taken{std::uint64_t{1}
                                           << (kPlaces - 1)};  // the shared one is nobody's to give

struct Place {
  Place() noexcept {
    std::uint64_t seen = taken.load(std::memory_order_relaxed);
    do {
      number = static_cast<std::size_t>(std::countr_one(seen));
      if (number >= kPlaces) number = kPlaces - 1;
    } while (number < kPlaces - 1 &&
             !taken.compare_exchange_weak(seen, seen | std::uint64_t{1} << number, std::memory_order_acquire,
                                          std::memory_order_relaxed));
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (!is_shared(number)) taken.fetch_and(~(std::uint64_t{1} << number), std::memory_order_release);
  }

  std::size_t number;
};

}  // namespace

std::size_t own_place() noexcept {
  thread_local const Place place;
  return place.number;
}

}  // namespace tmflow::adaptive
