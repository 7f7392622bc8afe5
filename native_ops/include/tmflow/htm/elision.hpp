// Lock elision: a critical section as a best-effort hardware transaction, with the mutex as fallback.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "tmflow/core/slots.hpp"
#include "tmflow/measure/counters.hpp"
#include "tmflow/sync/timed_lock.hpp"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::htm {

// A mutex for elision: it has a word that shows a transaction whether the mutex is locked, and whose change
// aborts the transaction.
//
// `word` belongs to the mutex and changes whenever the mutex is locked; the mutex is free when no bit of
// `mask` is set. Reading the word inside a transaction subscribes to it: a thread that locks the mutex later
// writes the word, which aborts the transaction.
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

  // Calls `visit` with the word. ElidableMutexes calls it with the word of each mutex.
  template <class Visit>
  void for_each_word(const Visit& visit) const {
    visit(word);
  }
};

// One mutex or several, of one critical section that is elided: a transaction subscribes to all, and a thread
// whose budget is spent locks all. The study does so for Adam (TM_BEGIN_ADAM), whose update changes three
// variables.
//
// They are locked in the order of their addresses, as TensorFlow locks the variables of an op, so threads
// that lock several do not wait for each other in a circle.
class ElidableMutexes {
 public:
  static constexpr std::size_t kMost = 1 + kMostSlots;

  ElidableMutexes(const ElidableMutex& only) noexcept { add(only); }

  void add(const ElidableMutex& mutex) noexcept {
    assert(count_ < kMost);
    std::size_t at = count_++;
    for (; at > 0 && std::less<>()(mutex.mutex, mutexes_[at - 1].mutex); --at)
      mutexes_[at] = mutexes_[at - 1];
    mutexes_[at] = mutex;
  }

  bool taken() const noexcept { return std::ranges::any_of(all(), &ElidableMutex::taken); }
  static void wait(Turn turn) noexcept { ElidableMutex::wait(turn); }

  void lock() const {
    for (const ElidableMutex& mutex : all()) mutex.lock();
  }
  void unlock() const {
    for (std::size_t i = count_; i-- > 0;) mutexes_[i].unlock();
  }

  template <class Visit>
  void for_each_word(const Visit& visit) const {
    for (const ElidableMutex& mutex : all()) visit(mutex.word);
  }

 private:
  std::span<const ElidableMutex> all() const noexcept { return std::span(mutexes_).first(count_); }

  std::array<ElidableMutex, kMost> mutexes_{};
  std::size_t count_ = 0;
};

// How an aborted transaction ended. The provider marks statuses as hopeless if the same transaction would
// abort again, for example by lack of capacity.
struct Ended {
  std::uint64_t status;  // raw, as reported by the machine
  bool hopeless;
};

// How much of the budget an abort costs.
enum class Spending {
  study_tsx,    // 1, whatever its cause
  study_power,  // 1, and 2 if it is hopeless
  tuned,        // 1, and the rest if it is hopeless
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

// A thread waits for a locked mutex outside of the transaction, which would only abort. It spins, as in the
// study, but yields the processor now and then: with more threads than cores the owner may need it.
template <class Mutex>
void wait_until_free(const Mutex& mutex) noexcept {
  for (Turn turn; mutex.taken(); ++turn) mutex.wait(turn);
}

// The aborts of one critical section, before they are added to the counters: mostly they have one status, and
// one addition is enough. Their number is the number of retries.
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

// Attempts transactions of `provider` until one commits, in which `inside` has run, or the budget is spent.
// Returns whether one has committed. `mutex`: as for `elide`, or the locks of several sections, if it has
// `taken`, `for_each_word` and an overload of wait_until_free.
template <class Provider, class Mutex, class Inside>
bool try_transactions(const Provider& provider, const Mutex& mutex, Budget budget, ThreadStats& stats,
                      Inside&& inside) {
  AbortRun aborts(stats);
  while (budget.attempts > 0) {
    wait_until_free(mutex);
    Ended ended;
    if (provider.attempt([&] { return mutex.taken(); }, inside, ended)) {
      stats.count_commit();
      return true;
    }
    aborts.add(ended.status);
    budget.spend(ended);
  }
  return false;
}

// Runs a critical section once, isolated from all critical sections of the mutex: `inside` a transaction of
// `provider`, or, when the budget is spent, `under` the mutex. The two do the same; `inside` avoids
// instructions that abort a transaction. `mutex` is an ElidableMutex, several, or a proxy of them; with
// several, all that is said of the mutex holds for each of them.
//
// Contract: `inside` must do nothing that a transaction cannot undo. Memory ordering: a commit is a single
// point in the order of all transactions and of all critical sections of the mutex. Against the mutex: the
// transaction reads its word first, so it aborts if the mutex is locked then or before the commit. If it
// commits, the mutex was free throughout, so all of its writes were visible before the next owner wrote the
// word. C++ does not know transactions and orders nothing here: the provider makes a commit one point in the
// order of memory (on hardware the processor, for which the end of a transaction is also a barrier).
template <class Provider, class Mutex, class Inside, class Under>
void elide(const Provider& provider, const Mutex& mutex, Budget budget, ThreadStats& stats, Inside&& inside,
           const Under& under) {
  if (try_transactions(provider, mutex, budget, stats, inside)) return;
  {
    const TimedLockGuard held(mutex, stats);
    under();
  }
  stats.count_fallback();
}

}  // namespace tmflow::htm
