// The word of a mutex that shows whether it is locked, to which an elided critical section subscribes.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <stdexcept>

#include "tmflow/htm/elision.hpp"

namespace tmflow::htm {

// Bits of the first 32-bit word of a mutex of type M, one of which is set exactly while the mutex is locked.
// Specialised for each type of mutex that can be elided. No standard guarantees this layout, so `elidable`
// checks it.
template <class M>
struct TakenBits;

// glibc's: pthread_mutex_t begins with the futex word, 0 when free.
template <>
struct TakenBits<std::mutex> {
  static constexpr std::uint32_t value = ~0u;
};

template <class M>
ElidableMutex unchecked_elidable(M& mutex) {
  return {.word = reinterpret_cast<const std::uint32_t*>(&mutex),
          .mask = TakenBits<M>::value,
          .mutex = &mutex,
          .take = [](void* it) { static_cast<M*>(it)->lock(); },
          .give_back = [](void* it) { static_cast<M*>(it)->unlock(); }};
}

// Whether the word shows the state correctly, tested with a new mutex in each state.
template <class M>
bool word_shows_state() {
  M mutex;
  const ElidableMutex view = unchecked_elidable(mutex);
  const bool free_at_first = !view.taken();
  mutex.lock();
  const bool taken = view.taken();
  mutex.unlock();
  bool shared = true;
  if constexpr (requires { mutex.lock_shared(); }) {
    mutex.lock_shared();
    shared = view.taken();
    mutex.unlock_shared();
  }
  return free_at_first && taken && shared && !view.taken();
}

// `mutex` for elision. Throws std::logic_error if the layout of the type of mutex has changed since this was
// written, because eliding it would lose updates.
template <class M>
ElidableMutex elidable(M& mutex) {
  if constexpr (requires { mutex.elidable(); }) {  // it is a proxy of another mutex
    return mutex.elidable();
  } else {
    static const bool is_reliable = word_shows_state<M>();
    if (!is_reliable)
      throw std::logic_error(
          "the memory layout of the mutex of the variable has changed, so it cannot be elided");
    return unchecked_elidable(mutex);
  }
}

}  // namespace tmflow::htm
