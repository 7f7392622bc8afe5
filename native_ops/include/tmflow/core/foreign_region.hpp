// Regions of other libraries: strategies are compiled for them without the headers of that library.
#pragma once

#include <concepts>
#include <span>

#include "tmflow/core/region.hpp"
#include "tmflow/htm/mutex_word.hpp"

namespace tmflow {

// A reference to a mutex of any type, which the caller keeps alive.
//
// Memory ordering: that of the mutex. Each operation costs one indirect call more than the mutex itself.
class ForeignMutex {
 public:
  template <class M>
    requires(!std::same_as<M, ForeignMutex>)  // else it would replace the copy constructor
  explicit ForeignMutex(M& mutex) noexcept : mutex_(&mutex), actions_(&kActionsOf<M>) {}

  void lock() { actions_->lock(mutex_); }
  bool try_lock() { return actions_->try_lock(mutex_); }
  void unlock() { actions_->unlock(mutex_); }

  // htm::elidable of the mutex.
  htm::ElidableMutex elidable() const { return actions_->elidable(mutex_); }

 private:
  struct Actions {
    void (*lock)(void*);
    bool (*try_lock)(void*);
    void (*unlock)(void*);
    htm::ElidableMutex (*elidable)(void*);
  };

  template <class M>
  static constexpr Actions kActionsOf{
      .lock = [](void* mutex) { static_cast<M*>(mutex)->lock(); },
      .try_lock = [](void* mutex) -> bool { return static_cast<M*>(mutex)->try_lock(); },
      .unlock = [](void* mutex) { static_cast<M*>(mutex)->unlock(); },
      .elidable = [](void* mutex) { return htm::elidable(*static_cast<M*>(mutex)); },
  };

  void* mutex_;
  const Actions* actions_;
};

// A region whose memory and mutex another library provides; TensorFlow's variables derive from it.
template <std::floating_point T>
class ForeignRegion {
 public:
  using Value = T;
  static constexpr bool kFetchTakesMutex = true;

  virtual ~ForeignRegion() = default;

  ForeignMutex& mutex() { return mutex_; }
  // Of the slots of the optimiser that updates the variable; none before set_slot_mutexes.
  std::span<ForeignMutex> slot_mutexes() { return slot_mutexes_; }
  // The caller keeps them alive as long as the region.
  void set_slot_mutexes(std::span<ForeignMutex> mutexes) { slot_mutexes_ = mutexes; }
  virtual std::span<T> memory(Holding holding) = 0;

 protected:
  explicit ForeignRegion(ForeignMutex mutex) : mutex_(mutex) {}
  ForeignRegion(const ForeignRegion&) = default;
  ForeignRegion& operator=(const ForeignRegion&) = delete;

 private:
  ForeignMutex mutex_;
  std::span<ForeignMutex> slot_mutexes_;
};

}  // namespace tmflow
