// The versions of a variable: full copies, of which one is the newest, published without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/cache_line.hpp"

namespace tmflow::publish {

// The safety mechanisms by name, so that a test can remove one at compile time and show that it is necessary.
struct Sound {
  static constexpr bool kComparesAtPublication = true;  // a version succeeds the one that it was made from
  static constexpr bool kLooksAgain = true;  // a holder checks whether its version is still the newest
  static constexpr bool kSparesHeld = true;  // a held copy is not written
};

// A copy of the variable, and its number of holders. The publisher of the newest version, a writer and each
// reader count as one holder.
template <template <class> class Atom>
class alignas(kCacheLine) Version {
 public:
  explicit Version(std::size_t bytes) : bytes_(bytes) {}

  // Its elements. Only the thread that claimed it may write them, until it is published.
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

// Contract: lock-free. A held version is not written, and a thread that publishes one knows that the version
// from which it was made was the newest until that moment: so the versions are one sequence, each made from
// its predecessor. Copies are reused once no thread holds them, and freed with this object. A late thread may
// still count itself among the holders of a copy that has become another version, which is why it checks
// again.
//
// Memory ordering: acquire and release are sufficient, because to hold a copy and to claim it for another
// version both change the same word, `holders_`, by read-modify-writes, which have one order. Let a reader
// find version v in `newest_`, count itself (A), and find v there again (B). Let a writer have found 0
// holders of the same copy and claimed it (C). 0 means that its publisher's share was released, after another
// version replaced it.
// - A before C: the reader had released the copy before C. C acquires that release, so what it read comes
//   before what the writer writes.
// - C before A: A reads from C or a later change of the word, and so acquires C, and through it the
//   replacement. B comes after A, so it cannot find what was replaced. It finds v only if the copy has been
//   published again since, and then acquires that publication, of a finished version that it holds.
// So no thread reads what is being written. Nor can a writer's compare-exchange succeed wrongly with a copy
// that was the newest, was reused and is the newest again (ABA): the writer holds the version that it started
// from until after the exchange, and a held copy is not reused. No tag is needed, and no total order of all
// loads and stores (seq_cst), which a separate list of holders would need.
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

  // The newest version, held; nullptr if none was published. Retries only if another thread publishes in the
  // meantime.
  Version* hold_newest() noexcept {
    for (;;) {
      Version* const newest = newest_.load(std::memory_order_acquire);
      if (newest == nullptr) return nullptr;
      newest->holders_.fetch_add(1, std::memory_order_acq_rel);
      if (!Policy::kLooksAgain || newest_.load(std::memory_order_acquire) == newest) return newest;
      let_go(*newest);
    }
  }

  // The current newest version, not held for the caller, who may read only what never changes.
  const Version* newest() const noexcept { return newest_.load(std::memory_order_acquire); }

  static void let_go(Version& held) noexcept { held.holders_.fetch_sub(1, std::memory_order_acq_rel); }

  // A copy that no other thread holds, to be written; its content is meaningless. A new one if all copies are
  // held: each thread holds at most two (the version that it starts from and the one that it makes), so there
  // are little more than twice as many copies as threads.
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

  // Makes `next`, claimed by this thread, the newest version, if `from` still is; `from` is held by this
  // thread and released (nullptr if there was none). Otherwise returns false, and both stay held.
  bool publish(Version* from, Version& next) noexcept {
    if constexpr (Policy::kComparesAtPublication) {
      if (!newest_.compare_exchange_strong(from, &next, std::memory_order_acq_rel,
                                           std::memory_order_relaxed)) {
        return false;
      }
    } else {
      newest_.store(&next, std::memory_order_release);
    }
    // This thread's share in `next` becomes the publisher's, and the publisher's share in `from` is released
    // with this thread's.
    if (from != nullptr) from->holders_.fetch_sub(2, std::memory_order_acq_rel);
    return true;
  }

  // Resets to the state without any version. Must be called while no thread holds one.
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
