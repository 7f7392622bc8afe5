// Numbers of workers, lent for the duration of one update to threads that have none.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>
#include <vector>

#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/thread_number.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow {

// The counters of a worker belong to one thread at a time. A pool of threads, such as TensorFlow's, has no
// numbered workers, so each update borrows a number that no other update has at that time.
//
// Contract: a number has one holder at a time. Its holder may wait for locks of the strategy, whose holders
// have their numbers already; so nobody waits in a circle.
//
// Memory ordering: a lease is taken with acquire and returned with release, so what its holder wrote to the
// counters is visible to the next one. Whoever reads all counters must know by other means that no update
// runs.
template <template <class> class Atom = std::atomic>
class WorkerLeases {
 public:
  explicit WorkerLeases(int workers) : taken_(static_cast<std::size_t>(workers)) {}

  // Waits for a free number. Begins the search at a different one in each thread, so that threads seldom try
  // the same ones.
  int take() noexcept {
    std::size_t number = ThreadNumber<Atom>::own() % taken_.size();
    for (Turn turn; !try_take(number);) {
      number = (number + 1) % taken_.size();
      if (number == 0) {
        Waiting<Atom>::once(turn);
        ++turn;
      }
    }
    return static_cast<int>(number);
  }

  void give_back(int number) noexcept {
    taken_[static_cast<std::size_t>(number)].value.store(false, std::memory_order_release);
  }

  class Lease {
   public:
    explicit Lease(WorkerLeases& leases) : leases_(leases), worker_(leases.take()) {}
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease() { leases_.give_back(worker_); }

    int worker() const noexcept { return worker_; }

   private:
    WorkerLeases& leases_;
    const int worker_;
  };

 private:
  bool try_take(std::size_t number) noexcept {
    auto& taken = taken_[number].value;
    return !taken.load(std::memory_order_relaxed) && !taken.exchange(true, std::memory_order_acquire);
  }

  std::vector<Padded<Atom<bool>>> taken_;
};

// The worker of an update or a read: the one that its caller names, or, for kAnyWorker, one that no other
// call has until this object is destroyed. The callers of a tracker name all their workers or none.
class WorkerOfCall {
 public:
  static constexpr int kAnyWorker = -1;

  WorkerOfCall(WorkerLeases<>& leases, int named) : number_(named) {
    if (named == kAnyWorker) number_ = lease_.emplace(leases).worker();
  }

  int number() const noexcept { return number_; }

 private:
  std::optional<WorkerLeases<>::Lease> lease_;
  int number_;
};

}  // namespace tmflow
