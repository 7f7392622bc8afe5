// Lock elision: a critical section as a best-effort hardware transaction, with the mutex behind it.
#pragma once

#include <atomic>
#include <cstdint>

#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/timed_lock.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::htm {

// A mutex as elision needs it: a word that a transaction can read to learn, and to be told, that it is taken.
//
// `word` belongs to the mutex and changes whenever the mutex is taken; the mutex is free when no bit of
// `mask` is set. Reading it inside a transaction subscribes to it: whoever takes the mutex later writes the
// word, which aborts the transaction.
struct ElidableMutex {
  const std::uint32_t* word;
  std::uint32_t mask;
  void* mutex;
  void (*take)(void* mutex);
  void (*give_back)(void* mutex);

  bool taken() const noexcept { return (__atomic_load_n(word, __ATOMIC_ACQUIRE) & mask) != 0; }
  static void wait(Turn turn) noexcept { Waiting<std::atomic>::once(turn); }

  void lock() const { take(mutex); }
  void unlock() const { give_back(mutex); }
};

// How a transaction ended that did not commit. A provider says which statuses are hopeless: the same
// transaction would abort again, for want of capacity for instance.
struct Ended {
  std::uint64_t status;  // raw, as the machine gave it
  bool hopeless;
};

// What an abort takes from the budget.
enum class Spending {
  study_tsx,    // 1, whatever its cause
  study_power,  // 1, and 2 where it is hopeless
  tuned,        // 1, and all that is left where it is hopeless
};

struct Budget {
  std::int64_t attempts;
  Spending spending;

  void spend(const Ended& ended) noexcept {
    if (!ended.hopeless || spending == Spending::study_tsx) {
      attempts -= 1;
    } else {
      attempts -= spending == Spending::study_power ? 2 : attempts;
    }
  }
};

// A mutex that is taken is waited for outside of the transaction, which would only abort. Spinning, as the
// study did, but giving the processor away now and then: with more threads than cores the holder may need it.
template <class Mutex>
void wait_until_free(const Mutex& mutex) noexcept {
  for (Turn turn; mutex.taken(); ++turn) mutex.wait(turn);
}

// The aborts of one critical section, on their way to the counters: mostly all of one status, and then one
// addition is enough. How many there were are its retries.
class AbortRun {
 public:
  explicit AbortRun(ThreadStats& stats) : stats_(stats) {}
  AbortRun(const AbortRun&) = delete;
  AbortRun& operator=(const AbortRun&) = delete;
  ~AbortRun() {
    flush();
    stats_.count(Contention::retries, all_);
  }

  void add(std::uint64_t status) {
    if (n_ > 0 && status != status_) flush();
    status_ = status;
    ++n_;
    ++all_;
  }

 private:
  void flush() {
    if (n_ > 0) stats_.count_abort(status_, n_);
    n_ = 0;
  }

  ThreadStats& stats_;
  std::uint64_t status_ = 0;
  std::int64_t n_ = 0, all_ = 0;
};

// Runs a critical section once, alone among all critical sections of the mutex: `inside` a transaction of
// `provider`, or, when the budget is spent, `under` the mutex. The two do the same; `inside` avoids
// instructions that abort a transaction. `mutex` is an ElidableMutex, or stands for one.
//
// Contract: `inside` must do nothing that a transaction cannot undo. Memory ordering: a commit is a single
// point in the order of all transactions and of all critical sections of the mutex. Against the mutex: the
// transaction reads its word first, so it aborts if the mutex is taken then or before the commit; if it
// commits, the mutex was free throughout, so all of its writes were there before the next holder wrote the
// word. C++ knows no transactions and orders nothing here: it is the provider that makes a commit one point
// in the order of memory (on hardware the processor, whose end of a transaction is a barrier as well).
template <class Provider, class Mutex, class Inside, class Under>
void elide(const Provider& provider, const Mutex& mutex, Budget budget, ThreadStats& stats, Inside&& inside,
           const Under& under) {
  AbortRun aborts(stats);
  while (budget.attempts > 0) {
    wait_until_free(mutex);
    Ended ended;
    if (provider.attempt([&] { return mutex.taken(); }, inside, ended)) {
      stats.count_commit();
      return;
    }
    aborts.add(ended.status);
    budget.spend(ended);
  }
  {
    const TimedLockGuard held(mutex, stats);
    under();
  }
  stats.count_fallback();
}

}  // namespace tmflow::htm
