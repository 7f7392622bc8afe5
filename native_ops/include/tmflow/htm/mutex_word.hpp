// The word of a mutex that tells whether it is taken: what an elided critical section subscribes to.
#pragma once

#include <pthread.h>

#include <cstdint>
#include <mutex>
#include <stdexcept>

#include "tmflow/htm/elision.hpp"

namespace tmflow::htm {

// The bits of the first 32-bit word of a mutex of type M of which one is set exactly while it is taken. To be
// specialised for each type of mutex that can be elided; no standard grants this layout, so `elidable` tries
// it.
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

// Whether the word tells what it should: on a mutex of our own, in each state.
template <class M>
bool word_tells() {
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

// `mutex` as elision needs it. Throws std::logic_error where the type of mutex is not laid out as it was when
// this was written: eliding it would lose updates.
template <class M>
ElidableMutex elidable(M& mutex) {
  if constexpr (requires { mutex.elidable(); }) {  // it refers to another mutex
    return mutex.elidable();
  } else {
    static const bool tells = word_tells<M>();
    if (!tells) throw std::logic_error("the mutex of the variable is not laid out as its elision needs it");
    return unchecked_elidable(mutex);
  }
}

}  // namespace tmflow::htm
