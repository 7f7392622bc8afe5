// The kernels, compiled once for each build that CMakeLists.txt names, with that build's flags.
//
// Nothing may be shared between builds: the linker keeps one of several inline functions of the same name,
// and could so use wide vectors on a processor that has none. So the kernels are local, and Eigen's namespace
// has another name in each build (a definition of CMakeLists.txt).
#include "kernel_build.hpp"

#include <mutex>

#include "dense_loops.hpp"
#include "slot_loops.hpp"
#if defined(TMFLOW_HAS_EIGEN)
#include "eigen_loop.hpp"
#else
#include "eigen_absent.hpp"
#endif

namespace tmflow {
namespace {

template <class T>
void plain(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

// As the study's kernel of June 2017 was meant: it writes only where the gradient changes the element.
// Compilers keep it so, because a store where the program has none would be a race.
template <class T>
void skip_zero(T* variable, const T* delta, T alpha, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) {
    const T change = alpha * delta[i];
    if (change != 0) variable[i] -= change;
  }
}

template <class T>
void copy(const T* from, T* to, std::size_t n) noexcept {
  for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
}

// std::mutex without the inline functions of its class.
class PthreadGuard {
 public:
  explicit PthreadGuard(pthread_mutex_t& mutex) noexcept : mutex_(mutex) { pthread_mutex_lock(&mutex_); }
  ~PthreadGuard() { pthread_mutex_unlock(&mutex_); }

 private:
  pthread_mutex_t& mutex_;
};

// For the benchmark: the reference for `lock`. Flattened, so that the builds share no inline function of a
// mutex.
template <class Guard, class Mutex>
[[gnu::flatten]] void loop_under(Mutex& mutex, float* variable, const float* delta, float alpha,
                                 std::size_t n) noexcept {
  const Guard held(mutex);
  for (std::size_t i = 0; i < n; ++i) variable[i] -= alpha * delta[i];
}

}  // namespace

const KernelBuild TMFLOW_KERNELS{.of_float = {plain<float>, eigen<float>, skip_zero<float>, dense<float>,
                                              copy<float>, momentum<float>, adagrad<float>, adam<float>},
                                 .of_double = {plain<double>, eigen<double>, skip_zero<double>, dense<double>,
                                               copy<double>, momentum<double>, adagrad<double>, adam<double>},
                                 .loops_under_mutex = {.pthread = loop_under<PthreadGuard>,
                                                       .spin = loop_under<std::lock_guard<SpinLock>>,
                                                       .ticket = loop_under<std::lock_guard<TicketLock>>,
                                                       .mcs = loop_under<McsLock::Guard>}};

}  // namespace tmflow
