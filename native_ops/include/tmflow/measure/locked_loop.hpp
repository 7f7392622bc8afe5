// The references of the benchmark that anybody would write: a loop under a mutex, in one function.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "tmflow/measure/bench_mutexes.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow {

// variable[i] -= alpha * delta[i] for `n` elements while the mutex is held. As a kernel, it may leave the
// upper halves of the vector registers as they are.
template <class Mutex>
using LoopUnder = void (*)(Mutex& mutex, float* variable, const float* delta, float alpha,
                           std::size_t n) noexcept;

// For each mutex, compiled with the kernels and their flags.
struct LoopsUnderMutex {
  LoopUnder<pthread_mutex_t> pthread;
  LoopUnder<SpinLock> spin;
  LoopUnder<TicketLock> ticket;
  LoopUnder<McsLock> mcs;
};

// For the widest vectors that this processor has.
const LoopsUnderMutex& find_loops_under_mutex() noexcept;

}  // namespace tmflow
