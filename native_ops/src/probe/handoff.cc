// What it takes for a lock to get from the one that releases it to another one that waits for it.
#include <atomic>
#include <mutex>

#include "measurements.hpp"
#include "running.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/sync/spin_lock.hpp"

namespace tmflow::probe {
namespace {

// Held long enough for the other one to have gone to sleep, if its lock does that.
constexpr double kMostHandoffSeconds = 1, kHold = 5e-6, kPatience = 50e-3;
constexpr std::size_t kFewest = 30, kMostHandoffs = 100'000;

void pass(double seconds) {
  for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
  }
}

// From just before a release to just after the next taking, where that is another thread's, and it was
// waiting already. Who has released waits for that, for else it would mostly be first again, and the other
// sleep on. Memory ordering: the lock orders what it guards; `waits` and `owner` are only looked at.
template <class Lock>
double handoff_ns(const std::vector<int>& cpus, double seconds) {
  struct Guarded {
    bool was_waited_for = false;
    Clock::time_point released;
    std::vector<double> samples;
  };
  Apart<Lock> lock;
  Apart<Guarded> guarded;
  Apart<std::atomic<int>> owner(-1);
  std::vector<Apart<std::atomic<bool>>> waits(2);
  run_on(cpus, [&](int i, std::barrier<>& together) {
    const auto own = static_cast<std::size_t>(i);
    together.arrive_and_wait();
    for (const auto began = Clock::now(); seconds_since(began) < seconds;) {
      waits[own].its.store(true, std::memory_order_relaxed);
      lock.its.lock();
      const auto taken = Clock::now();
      waits[own].its.store(false, std::memory_order_relaxed);
      Guarded& its = guarded.its;
      if (owner.its.load(std::memory_order_relaxed) == 1 - i && its.was_waited_for &&
          its.samples.size() < kMostHandoffs) {
        its.samples.push_back(std::chrono::duration<double, std::nano>(taken - its.released).count());
      }
      owner.its.store(i, std::memory_order_relaxed);
      pass(kHold);
      const bool waited_for = waits[1 - own].its.load(std::memory_order_relaxed);
      its.was_waited_for = waited_for;
      its.released = Clock::now();
      lock.its.unlock();
      for (const auto then = Clock::now();
           waited_for && owner.its.load(std::memory_order_relaxed) == i && seconds_since(then) < kPatience;) {
        pause_processor();
      }
    }
  });
  if (guarded.its.samples.size() < kFewest) {
    throw NotMeasured("hardly ever did a release find the other thread waiting");
  }
  return median(guarded.its.samples);
}

template <class Lock>
double alone_ns() {
  constexpr int kTimes = 20'000, kRepeats = 15;
  Apart<Lock> lock;
  std::vector<double> samples;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    const auto began = Clock::now();
    for (int i = 0; i < kTimes; ++i) {
      lock.its.lock();
      lock.its.unlock();
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
