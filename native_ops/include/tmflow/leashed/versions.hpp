// The versions of a variable: whole copies, of which one is the newest, published without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::publish {

// The safety mechanisms by name, so that a test can take one away at compile time and show that it is needed.
struct Sound {
  static constexpr bool kComparesAtPublication = true;  // a version follows the one that it was made from
  static constexpr bool kLooksAgain = true;  // who holds a version looks whether it is still the newest
  static constexpr bool kSparesHeld = true;  // a copy that somebody holds is not written
};

// A copy of the variable, and how many hold it: as the newest (one), as its writer (one), or to read it.
template <template <class> class Atom>
class alignas(kCacheLine) Version {
 public:
  explicit Version(std::size_t bytes) : bytes_(bytes) {}

  // Its elements. Only who claimed it may write them, until it is published.
  template <class T>
  std::span<T> elements() noexcept {
    return {reinterpret_cast<T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }
  std::size_t bytes() const noexcept { return bytes_.size(); }

 private:
  template <template <class> class, class>
  friend class Versions;

  LinesOf<std::byte> bytes_;
  Version* next_ = nullptr;
  alignas(kCacheLine) Atom<std::int64_t> holders_{1};
};

// Contract: lock-free. A version that is held is not written, and who publishes one knows that the version it
// was made from was the newest until that moment: so the versions are one sequence, each made from the one
// before. Copies are used again once nobody holds them, and freed with this object: a thread that is late may
// still count itself among the holders of a copy that is another version by now, which is why it looks again.
//
// Memory ordering: acquire and release are enough, because who holds a copy and who takes it for another
// version both change the same word, `holders_`, by read-modify-writes, which are one order. Let a reader
// find version v in `newest_`, count itself (A), and find v there again (B). Let a writer have found 0
// holders of the same copy and claimed it (C). 0 means that its publisher's share was given up, after another
// version was put in its place.
// - A before C: the reader had let go before C. That release is acquired by C, so what it read is before what
//   the writer writes.
// - C before A: A reads from C or a later change of the word, and so acquires C, and through it the
//   replacement. B comes after A, so it cannot find what was replaced; it finds v only if the copy has been
//   published once more since, and then acquires that publication, of a finished version that it holds.
// So nobody reads what is being written. Nor can a writer's compare-exchange be deceived by a copy that was
// the newest, was used again and is the newest anew (ABA): it holds the version that it started from until
// after the exchange, and what is held is not used again. No tag is needed, and no order of all loads and
// stores (seq_cst), which a separate list of holders would.
template <template <class> class Atom, class Policy = Sound>
class Versions {
 public:
  using Version = publish::Version<Atom>;

  Versions() = default;
  Versions(const Versions&) = delete;
  Versions& operator=(const Versions&) = delete;
  ~Versions() {
    for (Version *next, *each = all_.load(std::memory_order_acquire); each != nullptr; each = next) {
      next = each->next_;
      delete each;
    }
  }

  // The newest version, held; nullptr if none was published. Begins anew only where another thread has
  // published meanwhile.
  Version* hold_newest() noexcept {
    for (;;) {
      Version* const newest = newest_.load(std::memory_order_acquire);
      if (newest == nullptr) return nullptr;
      newest->holders_.fetch_add(1, std::memory_order_acq_rel);
      if (!Policy::kLooksAgain || newest_.load(std::memory_order_acquire) == newest) return newest;
      let_go(*newest);
    }
  }

  // As it is now; held by nobody on behalf of the caller, who may look at what never changes.
  const Version* newest() const noexcept { return newest_.load(std::memory_order_acquire); }

  static void let_go(Version& held) noexcept { held.holders_.fetch_sub(1, std::memory_order_acq_rel); }

  // A copy that nobody else holds, to be written; what it holds is of no meaning. A new one if a look at all
  // finds none: each thread holds two at most (the version that it starts from and the one that it makes), so
  // there are little more than twice as many as threads.
  Version& claim(std::size_t bytes) {
    for (Version* each = all_.load(std::memory_order_acquire); each != nullptr; each = each->next_) {
      if (each->bytes() == bytes && is_claimed(*each)) return *each;
    }
    auto* const made = new Version(bytes);
    made->next_ = all_.load(std::memory_order_relaxed);
    while (!all_.compare_exchange_weak(made->next_, made, std::memory_order_acq_rel)) {
    }
    return *made;
  }

  // Make `next`, claimed by this thread, the newest version, if `from` still is: held by this thread, and let
  // go; nullptr if there was none. Otherwise false, and both stay held.
  bool publish(Version* from, Version& next) noexcept {
    if constexpr (Policy::kComparesAtPublication) {
      if (!newest_.compare_exchange_strong(from, &next, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
        return false;
      }
    } else {
      newest_.store(&next, std::memory_order_release);
    }
    // This thread's share in `next` is now the publisher's, and the publisher's in `from` goes with this
    // thread's.
    if (from != nullptr) from->holders_.fetch_sub(2, std::memory_order_acq_rel);
    return true;
  }

  // As if no version had ever been published. Called while nobody holds one.
  void forget() noexcept {
    if (Version* const newest = newest_.exchange(nullptr, std::memory_order_acq_rel)) let_go(*newest);
  }

 private:
  static bool is_claimed(Version& version) noexcept {
    std::int64_t holders = version.holders_.load(std::memory_order_relaxed);
    return (holders == 0 || !Policy::kSparesHeld) &&
           version.holders_.compare_exchange_strong(holders, holders + 1, std::memory_order_acq_rel,
                                                    std::memory_order_relaxed);
  }

  alignas(kCacheLine) Atom<Version*> newest_{nullptr};
  alignas(kCacheLine) Atom<Version*> all_{nullptr};
};

}  // namespace tmflow::publish
