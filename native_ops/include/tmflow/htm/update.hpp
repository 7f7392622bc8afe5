// The update as elided critical sections, by each provider of hardware transactions.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "tmflow/core/kernel.hpp"
#include "tmflow/htm/commit_order.hpp"
#include "tmflow/htm/elision.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::htm {

namespace emulated {
template <class Lock>
class BasicProcessor;
using Processor = BasicProcessor<SpinLock>;
}  // namespace emulated

// An update of one element after another, in critical sections of `chunk` elements each.
template <class T>
struct ElidedUpdate {
  const GradientDescent<T>& update;
  std::span<T> variable;
  std::size_t chunk;
  emulated::Processor* processor = nullptr;  // the one to run on, of kEmulated and of no other provider
};

// A way to run transactions. Those of a processor are compiled with instruction-set flags of their own
// (src/htm_*.cc), so a provider must be entered only where its `why_not` is empty.
struct Provider {
  const char* name;
  std::optional<std::string> (*why_not)();
  void (*run_float)(const ElidedUpdate<float>&, const ElidableMutex&, Budget, ThreadStats&);
  void (*run_double)(const ElidedUpdate<double>&, const ElidableMutex&, Budget, ThreadStats&);

  void run(const ElidedUpdate<float>& update, const ElidableMutex& mutex, Budget budget,
           ThreadStats& stats) const {
    run_float(update, mutex, budget, stats);
  }
  void run(const ElidedUpdate<double>& update, const ElidableMutex& mutex, Budget budget,
           ThreadStats& stats) const {
    run_double(update, mutex, budget, stats);
  }
};

// Intel RTM and POWER HTM. On another architecture, `why_not` says that this is one. Initialised before any
// code runs: TensorFlow's registration of the operations asks for the strategies while the library is loaded.
extern const Provider kRtm;
extern const Provider kPower;
// Those of a machine that is described by numbers (emulated/).
extern const Provider kEmulated;

// The chunks of an update, each a critical section of its own: `section(first, count)`.
template <class T, class Section>
void for_each_chunk(const ElidedUpdate<T>& elided, const Section& section) {
  const std::size_t size = elided.variable.size();
  for (std::size_t first = 0; first < size; first += elided.chunk) {
    section(first, std::min(elided.chunk, size - first));
  }
}

// The chunks of an update, each elided by the hardware provider P. For the source that defines the provider.
template <class P, class T>
void run_chunks(const ElidedUpdate<T>& elided, const ElidableMutex& mutex, Budget budget,
                ThreadStats& stats) {
  for_each_chunk(elided, [&](std::size_t first, std::size_t count) {
    elide(
        P(), mutex, budget, stats,
        [&] {
          elided.update.in_transaction(elided.variable, first, count);
          order_commit(mutex.word);
        },
        [&] { elided.update(elided.variable, first, count); });
  });
}

}  // namespace tmflow::htm
