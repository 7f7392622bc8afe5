// Emulated transactions, on any machine.
#include "tmflow/htm/emulated/elided.hpp"
#include "tmflow/htm/update.hpp"

namespace tmflow::htm {
namespace {

template <class T>
void run(const ElidedUpdate<T>& elided, const ElidableMutexes& mutexes, Budget budget, ThreadStats& stats) {
  emulated::Processor& processor = *elided.processor;
  emulated::run_chunks(processor.here(), processor.machine().line_bytes, elided, mutexes, budget, stats);
}

template <class T>
bool run_whole(const ElidedUpdate<T>& elided, const TouchedLocks<T>& locks, Budget budget,
               ThreadStats& stats) {
  emulated::Processor& processor = *elided.processor;
  return emulated::try_whole(processor.here(), processor.machine().line_bytes, elided, locks, budget, stats);
}

}  // namespace

constinit const Provider kEmulated{"emulated",       [] { return std::optional<std::string>(); },
                                   run<float>,       run<double>,
                                   run_whole<float>, run_whole<double>};

}  // namespace tmflow::htm
