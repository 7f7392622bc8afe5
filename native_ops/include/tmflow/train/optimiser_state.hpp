// The state of a trial's optimiser: the slots of all regions, and Adam's powers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <string_view>
#include <vector>

#include "tmflow/core/slots.hpp"
#include "tmflow/sync/cache_line.hpp"
#include "tmflow/train/placement.hpp"

namespace tmflow::train {

// Adam's correction of the first steps' bias needs beta1 and beta2 to the power of the number of the step. As
// in tf.compat.v1.train.AdamOptimizer, one pair of powers serves all variables, and a step multiplies it by
// the betas after its updates. With one worker the powers are exactly TensorFlow's.
//
// With several workers, a step corrects by the number of steps that are complete when its updates begin, not
// by its own number. The two powers may come from different numbers of steps.
//
// Memory ordering: relaxed, because a power publishes nothing but itself. No multiplication is lost, because
// a compare-exchange replaces the value that it multiplied. (TensorFlow reads and assigns, without a lock if
// use_locking is False, and may lose some.)
template <std::floating_point T>
class AdamPowers {
 public:
  T corrected(T learning_rate) const noexcept {
    return learning_rate * std::sqrt(T{1} - second_.load(std::memory_order_relaxed)) /
           (T{1} - first_.load(std::memory_order_relaxed));
  }

  void end_step() noexcept {
    multiply(first_, static_cast<T>(kBeta1));
    multiply(second_, static_cast<T>(kBeta2));
  }

  void reset() noexcept {
    first_.store(static_cast<T>(kBeta1), std::memory_order_relaxed);
    second_.store(static_cast<T>(kBeta2), std::memory_order_relaxed);
  }

 private:
  static void multiply(std::atomic<T>& power, T beta) noexcept {
    T seen = power.load(std::memory_order_relaxed);
    while (!power.compare_exchange_weak(seen, seen * beta, std::memory_order_relaxed)) {
    }
  }

  std::atomic<T> first_{static_cast<T>(kBeta1)}, second_{static_cast<T>(kBeta2)};
};

template <std::floating_point T>
class OptimiserState {
 public:
  OptimiserState(Optimiser optimiser, const Placement& placement, std::string_view optimisation)
      : optimiser_(optimiser) {
    if (optimiser == Optimiser::sgd) return;
    for (std::size_t slot = 0; slot < slots_of(optimiser); ++slot) memory_.emplace_back(placement);
    for (std::size_t region = 0; region < placement.region_sizes().size(); ++region) {
      regions_.push_back({.kernel = find_slot_kernel<T>(optimiser, optimisation),
                          .hyper = Hyperparameters<T>::of(optimiser)});
      for (std::size_t slot = 0; slot < memory_.size(); ++slot) {
        regions_.back().memory[slot] = memory_[slot].region(region).data();
      }
    }
    reset();
  }
  OptimiserState(const OptimiserState&) = delete;
  OptimiserState& operator=(const OptimiserState&) = delete;

  // Null without any.
  const Slots<T>* slots(std::size_t region) const noexcept {
    return regions_.empty() ? nullptr : &regions_[region];
  }

  // The factor of the updates of a step, if they begin now.
  T rate(T learning_rate) const noexcept {
    return optimiser_ == Optimiser::adam ? powers_.value.corrected(learning_rate) : learning_rate;
  }

  // A step has updated all variables.
  void end_step() noexcept {
    if (optimiser_ == Optimiser::adam) powers_.value.end_step();
  }

  // As before the first step. Must be called while no thread updates.
  void reset() noexcept {
    for (RegionMemory<T>& slot : memory_) {
      for (std::size_t region = 0; region < regions_.size(); ++region) {
        std::ranges::fill(slot.region(region), static_cast<T>(initial_slot(optimiser_)));
      }
    }
    powers_.value.reset();
  }

 private:
  const Optimiser optimiser_;
  std::vector<RegionMemory<T>> memory_;  // of each slot
  std::vector<Slots<T>> regions_;
  Padded<AdamPowers<T>> powers_;
};

}  // namespace tmflow::train
