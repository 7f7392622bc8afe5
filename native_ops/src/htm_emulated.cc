// Emulated transactions, on any machine.
#include "tmflow/htm/emulated/buffered_update.hpp"
#include "tmflow/htm/update.hpp"

namespace tmflow::htm {
namespace {

using emulated::Access;
using emulated::BufferedUpdate;
using emulated::HardwareThread;
using emulated::Processor;

Access word_read(const ElidableMutex& mutex) { return Access::read(mutex.word, sizeof *mutex.word); }
Access word_written(const ElidableMutex& mutex) { return Access::written(mutex.word, sizeof *mutex.word); }

class Emulated {
 public:
  Emulated(HardwareThread& thread, const ElidableMutex& mutex) : thread_(thread), mutex_(mutex) {}

  template <class Taken, class Update>
  bool attempt(const Taken& taken, Update& update, Ended& ended) const {
    thread_.begin();
    if (thread_.access({word_read(mutex_)})) {
      if (taken()) {
        thread_.abort();
      } else {
        update();
      }
    }
    return thread_.commit(ended, [&] { update.publish(); });
  }

 private:
  HardwareThread& thread_;
  const ElidableMutex& mutex_;
};

// A mutex whose taking and releasing are told to the emulated processor, for they write its word.
//
// Memory ordering: the writing is told after the mutex was taken and before it is released. So a transaction
// either asks for the word's line before the first telling, and is aborted by it or has committed before, its
// writes seen by the holder; or it asks later, and finds the mutex taken; or, once it is free, asks after the
// second telling, and sees what the holder wrote.
struct ToldMutex {
  HardwareThread& thread;
  const ElidableMutex& mutex;

  ElidableMutex view() {
    return {.word = mutex.word,
            .mask = mutex.mask,
            .mutex = this,
            .lock = [](void* it) { static_cast<ToldMutex*>(it)->lock(); },
            .unlock = [](void* it) { static_cast<ToldMutex*>(it)->unlock(); }};
  }

 private:
  void lock() {
    mutex.lock(mutex.mutex);
    thread.notice({word_written(mutex)});
  }
  void unlock() {
    thread.notice({word_written(mutex)});
    mutex.unlock(mutex.mutex);
  }
};

template <class T>
void run(const ElidedUpdate<T>& elided, const ElidableMutex& mutex, Budget budget, ThreadStats& stats) {
  Processor& processor = *elided.processor;
  HardwareThread& thread = processor.here();
  ToldMutex told{thread, mutex};
  const ElidableMutex view = told.view();
  for_each_chunk(elided, [&](std::size_t first, std::size_t count) {
    BufferedUpdate<T> inside(thread, processor.machine().line_bytes, elided.update, elided.variable, first,
                             count);
    elide(Emulated(thread, view), view, budget, stats, inside, [&] {
      const std::size_t bytes = count * sizeof(T);
      thread.notice({Access::read(elided.update.delta.data() + first, bytes),
                     Access::written(elided.variable.data() + first, bytes)});
      elided.update(elided.variable, first, count);
    });
  });
}

}  // namespace

constinit const Provider kEmulated{"emulated", [] { return std::optional<std::string>(); }, run<float>,
                                   run<double>};

}  // namespace tmflow::htm
