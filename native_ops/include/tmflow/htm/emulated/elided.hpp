// Updates and reads that an emulated processor sees.
#pragma once

#include <cstddef>
#include <span>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/stripes.hpp"
#include "tmflow/htm/elision.hpp"
#include "tmflow/htm/emulated/buffered_update.hpp"
#include "tmflow/htm/emulated/processor.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/sync/timed_lock.hpp"

namespace tmflow::htm::emulated {

// The provider of elision: one attempt is one transaction of `thread`.
template <class Thread, class Mutex>
class Emulated {
 public:
  Emulated(Thread& thread, const Mutex& mutex) : thread_(thread), mutex_(mutex) {}

  template <class Taken, class Update>
  bool attempt(const Taken& taken, Update& update, Ended& ended) const {
    if (subscribe()) {
      if (taken()) {
        thread_.abort();
      } else {
        update();
      }
    }
    return thread_.commit(ended, [&] { update.publish(); });
  }

 private:
  // Begins the transaction by reading the words of the mutexes. There is none if the update changes nothing.
  bool subscribe() const {
    bool has_begun = false, is_live = true;
    mutex_.for_each_word([&](const auto* word) {
      const Access read = Access::read(word, sizeof *word);
      is_live = has_begun ? is_live && thread_.access({read}) : thread_.begin({read});
      has_begun = true;
    });
    return has_begun ? is_live : thread_.begin({});
  }

  Thread& thread_;
  const Mutex& mutex_;
};

// A mutex, or several, that notify the emulated processor of locks and unlocks, because they write their
// words.
//
// Memory ordering: the processor is notified after the mutex was locked and before it is unlocked. A
// transaction that requests the word's line before the first notification is aborted by it, or has committed
// before, and then the owner sees its writes. A transaction that requests it later finds the mutex locked.
// After the second notification the mutex is free, and a transaction that requests the line sees the writes
// of the owner.
template <class Thread, class Mutex>
struct NotifyingMutex {
  Thread& thread;
  Mutex& mutex;

  bool taken() const noexcept { return mutex.taken(); }
  void wait(Turn turn) const noexcept { mutex.wait(turn); }

  void lock() const {
    mutex.lock();
    notice_words();
  }
  bool try_lock() const {
    if (!mutex.try_lock()) return false;
    notice_words();
    return true;
  }
  void unlock() const {
    notice_words();
    mutex.unlock();
  }

  template <class Visit>
  void for_each_word(const Visit& visit) const {
    mutex.for_each_word(visit);
  }

 private:
  void notice_words() const {
    for_each_word([&](const auto* word) { thread.notice({Access::written(word, sizeof *word)}); });
  }
};

// The update of [first, first + count), outside of transactions, under a lock.
template <class Thread, class T>
void notice_update(Thread& thread, const ElidedUpdate<T>& elided, std::size_t first, std::size_t count) {
  elided.update.for_each_part(first, count, [&](std::size_t begin, std::size_t n, const T* gradient) {
    thread.notice({Access::read(gradient, n * sizeof(T)),
                   Access::written(elided.variable.data() + begin, n * sizeof(T))});
    if (elided.update.slots == nullptr) return;
    for (const T* const slot : elided.update.slots->from(begin)) {
      if (slot != nullptr) thread.notice({Access::written(slot, n * sizeof(T))});
    }
  });
}

// The chunks of an update, each elided by `thread`.
template <class Thread, class Mutex, class T>
void run_chunks(Thread& thread, std::size_t line_bytes, const ElidedUpdate<T>& elided, const Mutex& mutex,
                Budget budget, ThreadStats& stats) {
  const NotifyingMutex<Thread, const Mutex> notifying{thread, mutex};
  for_each_chunk(elided.update, elided.chunk, [&](std::size_t first, std::size_t count, std::size_t) {
    BufferedUpdate<T, Thread> inside(thread, line_bytes, elided.update, elided.variable, first, count);
    elide(Emulated(thread, notifying), notifying, budget, stats, inside, [&] {
      notice_update(thread, elided, first, count);
      elided.update(elided.variable, first, count);
    });
  });
}

// The whole update as one transaction of `thread`; returns whether it has committed.
template <class Thread, class Locks, class T>
bool try_whole(Thread& thread, std::size_t line_bytes, const ElidedUpdate<T>& elided, const Locks& locks,
               Budget budget, ThreadStats& stats) {
  BufferedUpdate<T, Thread> inside(thread, line_bytes, elided.update, elided.variable, 0,
                                   elided.variable.size());
  return try_transactions(Emulated(thread, locks), locks, budget, stats, inside);
}

// The locks of blocks, as NotifyingMutex.
template <class Thread, template <class> class Atom>
auto notifying_locks(Thread& thread, const BasicStripes<Atom>& stripes) {
  return [&](std::size_t block) {
    return NotifyingMutex<Thread, BasicSpinLock<Atom>>{thread, stripes.lock(block)};
  };
}

// The update of the blocks, one after another, each under its lock.
template <class Thread, template <class> class Atom, class T>
void update_by_block(Thread& thread, const BasicStripes<Atom>& stripes, const ElidedUpdate<T>& elided,
                     ThreadStats& stats) {
  update_stripes(stripes, elided.update, stats, notifying_locks(thread, stripes),
                 [&](std::size_t first, std::size_t count, std::size_t row) {
                   notice_update(thread, elided, first, count);
                   elided.update(elided.variable, first, count, row);
                 });
}

// A read under the mutex.
template <class Thread, class Mutex, class T>
void read_alone(Thread& thread, const Mutex& mutex, std::span<T> variable, const Reading<T>& reading,
                ThreadStats& stats) {
  const NotifyingMutex<Thread, const Mutex> notifying{thread, mutex};
  const TimedLockGuard held(notifying, stats);
  thread.notice({Access::read(variable.data(), variable.size_bytes())});
  reading(variable, 0, variable.size());
}

// A read of the blocks, one after another, each under its lock.
template <class Thread, template <class> class Atom, class T>
void read_by_block(Thread& thread, const BasicStripes<Atom>& stripes, std::span<T> variable,
                   const Reading<T>& reading, ThreadStats& stats) {
  read_stripes(stripes, stats, notifying_locks(thread, stripes), [&](std::size_t first, std::size_t count) {
    thread.notice({Access::read(variable.data() + first, count * sizeof(T))});
    reading(variable, first, count);
  });
}

}  // namespace tmflow::htm::emulated
