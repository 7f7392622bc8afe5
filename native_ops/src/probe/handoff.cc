// The time in which a lock passes from the thread that releases it to another thread that waits for it.
#include <atomic>
#include <mutex>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::probe {
namespace {

// Held long enough for the other thread to go to sleep, if the lock makes it sleep.
constexpr double kMostHandoffSeconds = 1, kHold = 5e-6, kPatience = 50e-3;
constexpr std::size_t kFewest = 30, kMostHandoffs = 100'000;

void pass(double seconds) {
  for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
  }
}

// From just before an unlock to just after the next lock, if another thread takes it that was already
// waiting. The unlocking thread waits for that; otherwise it would usually retake the lock first while the
// other one sleeps. Memory ordering: the lock orders what it guards; `waits` and `owner` are only observed.
template <class Lock>
double handoff_ns(const std::vector<int>& cpus, double seconds) {
  struct Guarded {
    bool was_waited_for = false;
    Clock::time_point released;
    std::vector<double> samples;
  };
  Padded<Lock> lock;
  Padded<Guarded> guarded;
  Padded<std::atomic<int>> owner(-1);
  std::vector<Padded<std::atomic<bool>>> waits(2);
  run_on(cpus, [&](int i, std::barrier<>& together) {
    const auto own = static_cast<std::size_t>(i);
    together.arrive_and_wait();
    for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
      waits[own].value.store(true, std::memory_order_relaxed);
      lock.value.lock();
      const auto taken = Clock::now();
      waits[own].value.store(false, std::memory_order_relaxed);
      Guarded& handoff = guarded.value;
      if (owner.value.load(std::memory_order_relaxed) == 1 - i && handoff.was_waited_for &&
          handoff.samples.size() < kMostHandoffs) {
        handoff.samples.push_back(std::chrono::duration<double, std::nano>(taken - handoff.released).count());
      }
      owner.value.store(i, std::memory_order_relaxed);
      pass(kHold);
      const bool waited_for = waits[1 - own].value.load(std::memory_order_relaxed);
      handoff.was_waited_for = waited_for;
      handoff.released = Clock::now();
      lock.value.unlock();
      for (const auto then = Clock::now(); waited_for && owner.value.load(std::memory_order_relaxed) == i &&
                                           seconds_since(then) < kPatience;) {
        pause_processor();
      }
    }
  });
  if (guarded.value.samples.size() < kFewest) {
    throw NotMeasured("the other thread was hardly ever waiting when the lock was released");
  }
  return median(guarded.value.samples);
}

template <class Lock>
double alone_ns() {
  constexpr int kTimes = 20'000, kRepeats = 15;
  Padded<Lock> lock;
  std::vector<double> samples;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto began = Clock::now();
    for (int i = 0; i < kTimes; ++i) {
      lock.value.lock();
      lock.value.unlock();
    }
    samples.push_back(1e9 * seconds_since(began) / kTimes);
  }
  return median(samples);
}

template <class Lock>
Json of(const std::optional<Pair>& pair, double seconds) {
  Findings found;
  found.set("alone_ns", rounded(alone_ns<Lock>()));
  found.find("handoff_ns", [&] {
    if (!pair) throw NotMeasured("this process may use only one core");
    return handoff_ns<Lock>({pair->one.number, pair->other.number}, seconds);
  });
  return found.json();
}

}  // namespace

Json lock_handoffs(const std::vector<Cpu>& cpus, const Budget& budget) {
  const double seconds = std::min(kMostHandoffSeconds, budget.left() / 2);
  const auto pair = core_pair(cpus);
  return Json::Object{{"mutex", of<std::mutex>(pair, seconds)}, {"spin", of<SpinLock>(pair, seconds)}};
}

}  // namespace tmflow::probe
