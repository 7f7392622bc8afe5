// The references of the benchmark: a copy of the same traffic, straightforward loops under mutexes, the
// elision template without the time of hardware transactions, and no update.
#pragma once

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "tmflow/core/kernel.hpp"
#include "tmflow/core/strategy.hpp"
#include "tmflow/htm/mutex_word.hpp"
#include "tmflow/htm/update.hpp"
#include "tmflow/measure/locked_loop.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/run_together.hpp"

namespace tmflow::bench {

// Contract and memory ordering: those of the mutex, which guards the update.
template <class Mutex>
class MutexLoop {
 public:
  explicit MutexLoop(LoopUnder<Mutex> loop) : loop_(loop) {}

  template <Region R>
  void apply(R& region, const GradientDescent<float>& update, ThreadStats& stats) {
    const auto memory = region.memory(Holding::nothing);
    loop_(mutex_, memory.data(), update.delta.data(), update.alpha, memory.size());
    clear_upper_halves();
    stats.count_update();
  }

 private:
  const LoopUnder<Mutex> loop_;
  alignas(kCacheLine) Mutex mutex_{};  // a pthread_mutex_t of zeros is PTHREAD_MUTEX_INITIALIZER
};

// `htm` with a provider whose every attempt aborts immediately: the cost of elision itself.
class AlwaysAborts {
 public:
  explicit AlwaysAborts(std::int64_t budget) : budget_{budget, htm::Spending::study_tsx} {}

  template <Region R>
  void apply(R& region, const GradientDescent<float>& update, ThreadStats& stats) const {
    constexpr std::size_t whole = std::numeric_limits<std::size_t>::max();
    const htm::ElidedUpdate<float> elided{update, region.memory(Holding::nothing), whole};
    htm::run_chunks<Refusing>(elided, htm::elidable(region.mutex()), budget_, stats);
    stats.count_update();
  }

 private:
  struct Refusing {
    template <class Taken, class Body>
    bool attempt(const Taken&, const Body&, htm::Ended& ended) const {
      ended = {.status = 0, .hopeless = false};
      return false;
    }
  };

  const htm::Budget budget_;
};

// No update at all. With a fresh gradient the audit's loop then only writes gradients; this time is
// subtracted from that of writing and updating. The variable does not change, so the audit finds every update
// lost.
struct NoUpdate {
  template <Region R>
  void apply(R&, const GradientDescent<float>&, ThreadStats&) const noexcept {}
};

struct CopyPlan {
  int threads;
  int copies;             // of each thread; once a thread has made them all, the others stop too
  std::int64_t elements;  // float32, of the update whose traffic is copied
};

struct CopyReport {
  std::int64_t made = 0;  // copies, by all threads
  double seconds = 0;     // spent copying, by the wall clock
  bool arrived = true;    // every written destination equals its source
};

// An update of n elements reads 2n and writes n. A copy of the same traffic reads and writes 1.5n each: 6
// bytes for each element of 4.
inline std::size_t copied_bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * 6; }

// Each thread copies its own memory repeatedly. All pages exist before the clock starts, because source and
// destination have been written. Memory ordering: the barriers order what each thread reports about itself;
// `first_is_through` publishes nothing.
inline CopyReport copy_at_once(const CopyPlan& plan) {
  using Clock = std::chrono::steady_clock;
  CopyReport report;
  Clock::time_point began;
  Padded<std::atomic<bool>> first_is_through(false);
  std::atomic<std::int64_t> made{0};
  std::atomic<bool> arrived{true};
  std::barrier start(plan.threads, [&]() noexcept { began = Clock::now(); });
  std::barrier finish(plan.threads, [&]() noexcept {
    report.seconds = std::chrono::duration<double>(Clock::now() - began).count();
  });

  const auto work = [&](int thread) {
    const LinesOf<unsigned char> source(copied_bytes(plan.elements), static_cast<unsigned char>(thread + 1));
    LinesOf<unsigned char> destination(source.size(), static_cast<unsigned char>(thread + 2));
    start.arrive_and_wait();
    int done = 0;
    while (done < plan.copies && !first_is_through.value.load(std::memory_order_relaxed)) {
      std::memcpy(destination.data(), source.data(), source.size());
      asm volatile("" : : "r"(destination.data()) : "memory");  // the compiler must not omit a copy
      ++done;
    }
    first_is_through.value.store(true, std::memory_order_relaxed);
    finish.arrive_and_wait();
    made += done;
    if (done > 0 && destination != source) arrived = false;
  };
  run_at_once(plan.threads, work, [&] {
    start.arrive_and_drop();
    finish.arrive_and_drop();
  });
  report.made = made;
  report.arrived = arrived;
  return report;
}

}  // namespace tmflow::bench
