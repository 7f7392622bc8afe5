// The update as elided critical sections, by each provider of hardware transactions.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "tmflow/core/blocks.hpp"
#include "tmflow/core/kernel.hpp"
#include "tmflow/htm/commit_order.hpp"
#include "tmflow/htm/elision.hpp"
#include "tmflow/htm/fitting.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::htm {

namespace emulated {
template <class Lock>
class BasicProcessor;
using Processor = BasicProcessor<SpinLock>;
}  // namespace emulated

// An update of one element after another, in critical sections of `chunk` elements each; 0: in one.
template <class T>
struct ElidedUpdate {
  const GradientDescent<T>& update;
  std::span<T> variable;
  std::size_t chunk;
  emulated::Processor* processor = nullptr;  // the processor to run on, only for kEmulated
};

// An implementation of transactions. Those of a processor are compiled with special instruction-set flags
// (src/htm_*.cc), so a provider may be called only if its `why_not` is empty.
struct Provider {
  const char* name;
  std::optional<std::string> (*why_not)();
  void (*run_float)(const ElidedUpdate<float>&, const ElidableMutexes&, Budget, ThreadStats&);
  void (*run_double)(const ElidedUpdate<double>&, const ElidableMutexes&, Budget, ThreadStats&);
  bool (*try_float)(const ElidedUpdate<float>&, const TouchedLocks<float>&, Budget, ThreadStats&);
  bool (*try_double)(const ElidedUpdate<double>&, const TouchedLocks<double>&, Budget, ThreadStats&);

  void run(const ElidedUpdate<float>& update, const ElidableMutexes& mutexes, Budget budget,
           ThreadStats& stats) const {
    run_float(update, mutexes, budget, stats);
  }
  void run(const ElidedUpdate<double>& update, const ElidableMutexes& mutexes, Budget budget,
           ThreadStats& stats) const {
    run_double(update, mutexes, budget, stats);
  }

  // Tries the whole update as one transaction; returns whether it has committed.
  bool try_whole(const ElidedUpdate<float>& update, const TouchedLocks<float>& locks, Budget budget,
                 ThreadStats& stats) const {
    return try_float(update, locks, budget, stats);
  }
  bool try_whole(const ElidedUpdate<double>& update, const TouchedLocks<double>& locks, Budget budget,
                 ThreadStats& stats) const {
    return try_double(update, locks, budget, stats);
  }
};

// Intel RTM and POWER HTM. On another architecture, `why_not` gives this reason. Initialised before any code
// runs, because TensorFlow's registration of the operations lists the strategies while the library is loaded.
extern const Provider kRtm;
extern const Provider kPower;
// The emulated transactions of a machine with given numbers (emulated/).
extern const Provider kEmulated;

// The chunks of an update, each elided by the hardware provider P. For the source that defines the provider.
template <class P, class T>
void run_chunks(const ElidedUpdate<T>& elided, const ElidableMutexes& mutexes, Budget budget,
                ThreadStats& stats) {
  for_each_chunk(elided.update, elided.chunk, [&](std::size_t first, std::size_t count, std::size_t) {
    elide(
        P(), mutexes, budget, stats,
        [&] {
          elided.update.in_transaction(elided.variable, first, count);
          mutexes.for_each_word(order_commit);
        },
        [&] { elided.update(elided.variable, first, count); });
  });
}

// The whole update as one transaction of the hardware provider P. For the source that defines the provider.
template <class P, class T>
bool try_whole(const ElidedUpdate<T>& elided, const TouchedLocks<T>& locks, Budget budget,
               ThreadStats& stats) {
  return try_transactions(P(), locks, budget, stats, [&] {
    elided.update.in_transaction(elided.variable, 0, elided.variable.size());
    locks.for_each_word(order_commit);
  });
}

}  // namespace tmflow::htm
