// A region: the memory of one variable, and the mutex that belongs to it.
#pragma once

#include <array>
#include <concepts>
#include <mutex>
#include <span>
#include <utility>

#include "tmflow/core/slots.hpp"
#include "tmflow/measure/counters.hpp"

namespace tmflow {

// What the caller of Region::memory holds at that moment.
enum class Holding { nothing, mutex };

// A strategy's view of a variable.
//
// `mutex()` is the variable's own: an operation that replaces the variable's memory holds it.
// `memory(holding)` is the current memory. With Holding::nothing it stays alive as long as the region object
// lives, and the call may lock the mutex briefly. With Holding::mutex it stays alive as long as the mutex is
// held; the call locks nothing, so the caller must hold the mutex. An update uses one of the two, not both
// (StrategyInfo::fetches_under_mutex). Throws if the variable has no memory that the update fits; a strategy
// propagates the exception. In a region whose memory locks the mutex with Holding::nothing,
// `kFetchTakesMutex` is true.
template <class R>
concept Region = requires(R& region, Holding holding) {
  typename R::Value;
  region.mutex().lock();
  region.mutex().unlock();
  { region.memory(holding) } -> std::same_as<std::span<typename R::Value>>;
};

template <class R>
concept FetchTakesMutex = requires { requires R::kFetchTakesMutex; };

// A region that also has a mutex for each slot of an optimiser, in their order, as TensorFlow's variables of
// slots have.
template <class R>
concept HasSlotMutexes = requires(R& region) { region.slot_mutexes()[0]; };

// A region over an array that outlives it and never moves.
template <std::floating_point T, class Mutex = std::mutex>
class ArrayRegion {
 public:
  using Value = T;

  explicit ArrayRegion(std::span<T> memory) : memory_(memory) {}

  Mutex& mutex() { return mutex_; }
  std::span<T> memory(Holding) const { return memory_; }
  std::span<Mutex> slot_mutexes() { return slot_mutexes_; }

 private:
  std::span<T> memory_;
  Mutex mutex_;
  // Apart from the rest, as in TensorFlow, where they belong to other variables.
  alignas(kCacheLine) std::array<Mutex, kMostSlots> slot_mutexes_;
};

}  // namespace tmflow
