// How often each raw status was seen: counted in a few nanoseconds, however many there are.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <stdexcept>

namespace tmflow {

// Exact counts by status, which any thread may increment. The first statuses get a place each, which is found
// by a search and incremented without a lock; any others share a map behind a mutex.
//
// Counting never throws, because destructors count, also for critical sections that an exception leaves. If
// there is no memory for the map, the count is missing, and a later request for the counts reports it.
//
// Memory ordering: relaxed, because a count publishes nothing but itself. A place in use keeps its status
// until clear(), which must not run concurrently with add().
class AbortCounts {
 public:
  using ByStatus = std::map<std::uint64_t, std::int64_t>;

  void add(std::uint64_t status, std::int64_t n) noexcept {
    if (std::atomic<std::int64_t>* const count = place_of(status)) {
      count->fetch_add(n, std::memory_order_relaxed);
    } else {
      const std::lock_guard held(mutex_);
      try {
        rest_[status] += n;
      } catch (const std::bad_alloc&) {
        is_incomplete_ = true;
      }
    }
  }

  // Throws std::runtime_error if memory was missing for some count.
  ByStatus by_status() const {
    const std::lock_guard held(mutex_);
    if (is_incomplete_) throw std::runtime_error("there was not enough memory to count every abort");
    ByStatus all = rest_;
    for (const Place& place : places_) {
      const std::uint64_t key = place.key.load(std::memory_order_relaxed);
      const std::int64_t n = place.count.load(std::memory_order_relaxed);
      if (key != kFree && n != 0) all[key - 1] += n;
    }
    return all;
  }

  void clear() {
    const std::lock_guard held(mutex_);
    rest_.clear();
    is_incomplete_ = false;
    for (Place& place : places_) {
      place.count.store(0, std::memory_order_relaxed);
      place.key.store(kFree, std::memory_order_relaxed);
    }
  }

 private:
  static constexpr std::uint64_t kFree =
      0;  // a key is a status plus 1; the one whose key this is goes to the map

  struct Place {
    std::atomic<std::uint64_t> key{kFree};
    std::atomic<std::int64_t> count{0};
  };

  std::atomic<std::int64_t>* place_of(std::uint64_t status) noexcept {
    const std::uint64_t key = status + 1;
    if (key == kFree) return nullptr;
    for (Place& place : places_) {
      std::uint64_t found = place.key.load(std::memory_order_relaxed);
      if (found == kFree && place.key.compare_exchange_strong(found, key, std::memory_order_relaxed)) {
        found = key;
      }
      if (found == key) return &place.count;
    }
    return nullptr;
  }

  std::array<Place, 8> places_;
  mutable std::mutex mutex_;
  ByStatus rest_;
  bool is_incomplete_ = false;
};

}  // namespace tmflow
