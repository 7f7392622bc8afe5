// The reference of the benchmark that anybody would write: a loop under a mutex, in one function.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace tmflow {

// variable[i] -= alpha * delta[i] for `n` elements while the mutex is held. As a kernel, it may leave the
// upper halves of the vector registers as they are.
using LoopUnderMutex = void (*)(pthread_mutex_t* mutex, float* variable, const float* delta, float alpha,
                                std::size_t n) noexcept;

// Compiled with the kernels and their flags, for the widest vectors that this processor has.
LoopUnderMutex find_loop_under_mutex() noexcept;

}  // namespace tmflow
