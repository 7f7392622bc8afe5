// The straightforward references of the benchmark: a loop under a mutex, in one function.
#pragma once

#include <pthread.h>

#include <cstddef>

#include "tmflow/measure/bench_mutexes.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow {

// variable[i] -= alpha * delta[i] for `n` elements while the mutex is held. Like a kernel, it may leave the
// upper halves of the vector registers in use.
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

// For the widest vectors of this processor.
const LoopsUnderMutex& find_loops_under_mutex() noexcept;

}  // namespace tmflow
