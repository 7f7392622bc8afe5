#include "tmflow/adaptive/thread_place.hpp"

#include <atomic>
#include <bit>
#include <cstdint>

namespace tmflow::adaptive {
namespace {

static_assert(kPlaces == 64, "a bit for each");
constinit std::atomic<std::uint64_t> given{std::uint64_t{1}
                                           << (kPlaces - 1)};  // the shared place is never assigned

// Releases the place when the thread ends.
struct Lease {
  Lease() noexcept {
    std::uint64_t seen = given.load(std::memory_order_relaxed);
    do {
      place = static_cast<std::size_t>(std::countr_one(seen));
      if (place == kPlaces) place = kPlaces - 1;
    } while (!ThreadPlace::is_shared(place) &&
             !given.compare_exchange_weak(seen, seen | std::uint64_t{1} << place, std::memory_order_acquire,
                                          std::memory_order_relaxed));
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    if (!ThreadPlace::is_shared(place)) {
      given.fetch_and(~(std::uint64_t{1} << place), std::memory_order_release);
    }
  }

  std::size_t place;
};

}  // namespace

std::size_t ThreadPlace::taken() noexcept {
  thread_local const Lease lease;
  return lease.place;
}

}  // namespace tmflow::adaptive
