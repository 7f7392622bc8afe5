// A gate that many threads pass at once, all with the same strategy (`way`), which changes only while none is
// inside.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "tmflow/adaptive/asymmetric_fence.hpp"
#include "tmflow/adaptive/thread_place.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::adaptive {

// The environment of the gate; a test that controls the schedule replaces it.
struct Threads {
  static constexpr std::size_t kPlaces = adaptive::kPlaces;
  static std::size_t own_place() noexcept { return ThreadPlace::own(); }
  static bool is_shared(std::size_t place) noexcept { return ThreadPlace::is_shared(place); }
  static void light_fence() noexcept { AsymmetricFence::light(); }
  static void heavy_fence() noexcept { AsymmetricFence::heavy(); }
};

// Contract: a thread is inside as long as it has a Passage, and uses its `way`; no other thread is inside
// with another way at the same time. `lead` changes the way: it makes new threads wait until all threads
// inside have left. One thread at a time may call it, from outside. A thread inside must not wait for one
// outside.
//
// Memory ordering: an entering thread announces itself and then reads the way. The leading thread closes the
// way and then checks which threads are inside. The fences between ensure that one of them sees the other. A
// leaving thread releases, and `lead` acquires that before it releases the new way, which an entering thread
// acquires: so everything done with one way happens before everything done with the next. The counts publish
// nothing: relaxed.
template <template <class> class Atom = std::atomic, class World = Threads>
class Gate {
 public:
  using Way = int;

  // The purpose of a passage. The gate also excludes threads other than updaters, but does not count them as
  // traffic.
  enum class Purpose : std::int64_t { other = 1, update = std::int64_t{1} << 32 };

  struct OfAPlace {
    std::int64_t updates = 0;  // counted updates
    bool updating = false;     // an update is in progress
  };
  using Traffic = std::array<OfAPlace, World::kPlaces>;

  explicit Gate(Way first) : way_(first) {}

  // The time that a thread is inside.
  class [[nodiscard]] Passage {
   public:
    explicit Passage(Gate& gate, Purpose purpose = Purpose::update) noexcept
        : purpose_(static_cast<std::int64_t>(purpose)),
          number_(World::own_place()),
          place_(gate.places_[number_]),
          way(gate.enter(place_, number_, purpose_)) {}
    Passage(const Passage&) = delete;
    Passage& operator=(const Passage&) = delete;
    ~Passage() { count(place_.inside, number_, -purpose_); }

    // Counts an update, and returns how many this thread had counted before.
    std::int64_t counted() noexcept { return count(place_.updates, number_, 1) - 1; }

   private:
    const std::int64_t purpose_;
    const std::size_t number_;
    typename Gate::Place& place_;

   public:
    const Way way;
  };

  void lead(Way to) noexcept {
    way_.store(kClosed, std::memory_order_relaxed);
    World::heavy_fence();
    for (Place& place : places_) {
      for (Turn turn; place.inside.load(std::memory_order_acquire) != 0; ++turn) Waiting<Atom>::once(turn);
    }
    way_.store(to, std::memory_order_release);
  }

  // The counts of all threads so far.
  Traffic traffic() const noexcept {
    Traffic all;
    for (std::size_t i = 0; i < World::kPlaces; ++i) {
      const std::int64_t inside = places_[i].inside.load(std::memory_order_relaxed);
      all[i] = {.updates = places_[i].updates.load(std::memory_order_relaxed),
                .updating = inside >= static_cast<std::int64_t>(Purpose::update)};
    }
    return all;
  }

 private:
  static constexpr Way kClosed = -1;

  struct alignas(kCacheLine) Place {
    Atom<std::int64_t> inside{0};  // the sum of the purposes of threads inside
    Atom<std::int64_t> updates{0};
  };

  Way enter(Place& place, std::size_t number, std::int64_t purpose) noexcept {
    while (true) {
      count(place.inside, number, purpose);
      World::light_fence();
      const Way way = way_.load(std::memory_order_acquire);
      if (way != kClosed) return way;
      count(place.inside, number, -purpose);
      for (Turn turn; way_.load(std::memory_order_relaxed) == kClosed; ++turn) Waiting<Atom>::once(turn);
    }
  }

  // A place that belongs to one thread needs no locked addition, which would cost as much as a small update.
  static std::int64_t count(Atom<std::int64_t>& counter, std::size_t place, std::int64_t n) noexcept {
    if (World::is_shared(place)) return counter.fetch_add(n, std::memory_order_release) + n;
    const std::int64_t now = counter.load(std::memory_order_relaxed) + n;
    counter.store(now, std::memory_order_release);
    return now;
  }

  alignas(kCacheLine) Atom<Way> way_;
  std::array<Place, World::kPlaces> places_;
};

}  // namespace tmflow::adaptive
