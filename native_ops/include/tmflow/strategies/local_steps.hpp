// local_steps: each worker updates its own copy of the variable, and publishes several updates at once.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>

#include "tmflow/core/strategy.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow {

namespace local {

// The safety mechanisms by name, so that a test can remove one at compile time and show that it is necessary.
struct Sound {
  static constexpr bool kLocks = true;             // publications exclude each other
  static constexpr bool kComparesVersions = true;  // a copy replaces the variable only if nobody published
};

// The copy of one worker, who is identified by its counters. All members but the first two are protected by
// `lock`. Only `settle`, `restart` and a caller that gives two threads the same worker lock it besides the
// worker.
template <template <class> class Atom>
struct alignas(kCacheLine) WorkerCopy {
  explicit WorkerCopy(std::uint64_t of) : worker(of) {}

  const std::uint64_t worker;  // ThreadStats::number
  WorkerCopy* next = nullptr;
  BasicSpinLock<Atom> lock;
  bool holds_variable = false;
  std::int64_t unpublished = 0;                 // updates
  std::uint64_t version = 0;                    // of the variable, when it was last copied
  LinesOf<std::byte> newest_bytes, base_bytes;  // with the unpublished updates, and without

  template <class T>
  std::span<T> newest() noexcept {
    return {reinterpret_cast<T*>(newest_bytes.data()), newest_bytes.size() / sizeof(T)};
  }
  template <class T>
  std::span<T> base() noexcept {
    return {reinterpret_cast<T*>(base_bytes.data()), base_bytes.size() / sizeof(T)};
  }
};

}  // namespace local

// Local steps with asynchronous publication: a worker reads and updates its own copy, which stays in its
// caches. After every `every` updates it locks the variable, adds what its copy has gained since the last
// time, and copies the variable. (Local SGD averages the copies at a barrier instead: S. Stich, "Local SGD
// Converges Fast and Communicates Little", ICLR 2019. Adding up the differences without a barrier is what
// DistBelief's workers do with a parameter server: J. Dean et al., "Large Scale Distributed Deep Networks",
// NIPS 2012.)
//
// Contract: no update is lost. The variable, which is in the region's memory, changes by `every` updates of a
// worker at once (fewer in `settle`), under one lock. A worker's copy contains all its own updates, and those
// of others up to its last publication; so a gradient lacks at most `every` - 1 updates of each other worker,
// and those that were published in the meantime. A copy contains each update completely or not at all, but
// the copies of two workers may contain different updates, so that no single order explains both. A worker
// without a copy reads the variable.
//
// `settle` publishes what is left, and discards the updates of a copy whose size is no longer that of the
// memory. After it, and after `restart`, workers copy the variable anew. An assignment of the memory between
// these is lost if the next worker to publish also published last; so assign after `settle`, and then
// restart. Throws std::invalid_argument if the memory has another size than the worker's copy.
//
// Rounding: a publication adds the difference of two copies, so with several workers results may differ in
// the last bits from those of a plain loop, and an infinite element becomes NaN. If no other worker has
// published since, the copy replaces the variable: with one worker every bit is that of the plain loop.
//
// Memory ordering: the lock acquires and releases, so a copy made under it contains all earlier publications
// completely. A worker's copy is protected by its own lock. The list of copies only grows: an entry is
// complete before the exchange that releases it. A worker adds its own copy only. If a caller gives two
// threads the same worker, both may add one; then each update is in one of the two, and `settle` publishes
// both.
template <template <class> class Atom = std::atomic, class Policy = local::Sound>
class BasicLocalSteps {
 public:
  static constexpr Parameter kParameters[] = {
      {.name = "every",
       .fallback = "16",
       .summary = "updates of a worker between two publications",
       .low = 1,
       .high = 1'000'000},
  };
  static constexpr StrategyInfo info{
      .name = "local_steps",
      .summary = "each worker updates a copy and adds what it has gained to the variable every few updates",
      .updates = Consistency::tensor,
      .reads = Consistency::none,  // plain reads may lack updates of the reader itself
      .snapshots = Consistency::tensor,
      .parameters = kParameters,
  };

  static std::optional<std::string> why_not() { return std::nullopt; }

  explicit BasicLocalSteps(std::int64_t every) : every_(every) {}
  explicit BasicLocalSteps(const Parameters& parameters) : BasicLocalSteps(parameters.integer("every")) {}
  BasicLocalSteps(const BasicLocalSteps&) = delete;
  BasicLocalSteps& operator=(const BasicLocalSteps&) = delete;
  ~BasicLocalSteps() {
    for (WorkerCopy* copy = copies_.load(std::memory_order_acquire); copy != nullptr;) {
      const std::unique_ptr<WorkerCopy> last(copy);
      copy = copy->next;
    }
  }

  template <Region R>
  void apply(R& region, const GradientDescent<typename R::Value>& update, ThreadStats& stats) {
    using T = typename R::Value;
    const auto memory = region.memory(Holding::nothing);
    WorkerCopy& copy = copy_of(stats);
    {
      const std::lock_guard used(copy.lock);
      load(copy, memory, stats);
      update(copy.template newest<T>(), 0, memory.size());
      if (++copy.unpublished >= every_) publish(copy, memory, update.kernel, stats);
    }
    stats.count_update();
  }

  template <Region R>
  void read(R& region, const Reading<typename R::Value>& reading, ThreadStats& stats) {
    using T = typename R::Value;
    const auto memory = region.memory(Holding::nothing);
    if (WorkerCopy* const copy = find(stats); copy != nullptr) {
      const std::lock_guard used(copy->lock);
      if (copy->holds_variable) {
        check_size<T>(*copy, memory);
        return reading(copy->template newest<T>(), 0, memory.size());
      }
    }
    const TimedLockGuard held(lock_, stats);
    reading(memory, 0, memory.size());
  }

  // The worker's copy, which no other worker changes.
  template <Region R>
  std::span<const typename R::Value> view(R& region, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    WorkerCopy& copy = copy_of(stats);
    const std::lock_guard used(copy.lock);
    load(copy, memory, stats);
    return copy.template newest<typename R::Value>();
  }

  template <Region R>
  void settle(R& region) {
    using T = typename R::Value;
    const auto memory = region.memory(Holding::nothing);
    ThreadStats uncounted;
    for (WorkerCopy* copy = newest_copy(); copy != nullptr; copy = copy->next) {
      const std::lock_guard used(copy->lock);
      if (copy->unpublished > 0 && copy->newest_bytes.size() == memory.size_bytes()) {
        publish(*copy, memory, find_kernel<T>(), uncounted);
      }
    }
    forget();
  }

  template <Region R>
  void restart(R&) noexcept {
    forget();
  }

 private:
  using WorkerCopy = local::WorkerCopy<Atom>;

  static constexpr std::size_t kPieceBytes = 8192;  // of a publication, so that it is in the nearest cache

  WorkerCopy* newest_copy() const noexcept { return copies_.load(std::memory_order_acquire); }

  WorkerCopy* find(const ThreadStats& worker) const noexcept {
    WorkerCopy* copy = newest_copy();
    while (copy != nullptr && copy->worker != worker.number()) copy = copy->next;
    return copy;
  }

  WorkerCopy& copy_of(const ThreadStats& worker) {
    if (WorkerCopy* const copy = find(worker); copy != nullptr) return *copy;
    auto* const made = new WorkerCopy(worker.number());
    made->next = copies_.load(std::memory_order_relaxed);
    while (!copies_.compare_exchange_weak(made->next, made, std::memory_order_acq_rel)) {
    }
    return *made;
  }

  template <class T>
  static void check_size(const WorkerCopy& copy, std::span<T> memory) {
    if (copy.newest_bytes.size() == memory.size_bytes()) return;
    throw std::invalid_argument("local_steps copied a variable of " +
                                std::to_string(copy.newest_bytes.size() / sizeof(T)) +
                                " elements, and it has " + std::to_string(memory.size()) + " now");
  }

  // Copies the variable, unless the worker has done so.
  template <class T>
  void load(WorkerCopy& copy, std::span<T> memory, ThreadStats& stats) {
    if (copy.holds_variable) return check_size(copy, memory);
    copy.newest_bytes.resize(memory.size_bytes());
    copy.base_bytes.resize(memory.size_bytes());
    const TimedLockGuard held(lock_, stats);
    copied<T>(memory, copy.template newest<T>());
    copied<T>(copy.template newest<T>(), copy.template base<T>());
    copy.version = version_;
    copy.unpublished = 0;
    copy.holds_variable = true;
  }

  // Adds the unpublished updates to the variable, and copies it.
  template <class T>
  void publish(WorkerCopy& copy, std::span<T> memory, Kernel<T> kernel, ThreadStats& stats) {
    const std::span<T> newest = copy.template newest<T>(), base = copy.template base<T>();
    std::optional<TimedLockGuard<BasicSpinLock<Atom>>> held;
    if constexpr (Policy::kLocks) held.emplace(lock_, stats);
    if (version_ == copy.version || !Policy::kComparesVersions) {
      copied<T>(newest, memory);
    } else {
      add<T>(newest, base, memory, kernel);
      copied<T>(memory, newest);
    }
    copied<T>(newest, base);
    copy.version = ++version_;
    copy.unpublished = 0;
  }

  // memory += newest - base, by the kernel of the update.
  template <class T>
  static void add(std::span<const T> newest, std::span<const T> base, std::span<T> memory, Kernel<T> kernel) {
    constexpr std::size_t piece = kPieceBytes / sizeof(T);
    std::array<T, piece> missing;
    for (std::size_t first = 0; first < memory.size(); first += piece) {
      const std::size_t count = std::min(piece, memory.size() - first);
      for (std::size_t i = 0; i < count; ++i) missing[i] = base[first + i] - newest[first + i];
      kernel(memory.data() + first, missing.data(), T{1}, count);
    }
    clear_upper_halves();
  }

  template <class T>
  static void copied(std::span<const T> from, std::span<T> to) {
    const Reading<T> all{.into = to};
    all(from, 0, to.size());
  }

  void forget() noexcept {
    for (WorkerCopy* copy = newest_copy(); copy != nullptr; copy = copy->next) {
      const std::lock_guard used(copy->lock);
      copy->holds_variable = false;
      copy->unpublished = 0;
    }
  }

  const std::int64_t every_;
  alignas(kCacheLine) BasicSpinLock<Atom> lock_;
  std::uint64_t version_ = 0;  // the number of publications; protected by the lock
  alignas(kCacheLine) Atom<WorkerCopy*> copies_{nullptr};
};

using LocalSteps = BasicLocalSteps<>;

}  // namespace tmflow
