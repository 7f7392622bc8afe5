// Optimisers that keep state: arrays of the variable's size, its slots, which an update changes with it.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tmflow {

// The rules are those of tf.raw_ops.ApplyMomentum, ApplyAdagrad and ApplyAdam, and for rows of
// SparseApplyMomentum and SparseApplyAdagrad, without Nesterov's variant. Adam for rows changes the moments
// of these rows alone ("lazy Adam", as in TensorFlow Addons); TensorFlow's decays those of all other rows
// too.
enum class Optimiser { sgd, momentum, adagrad, adam };

inline constexpr std::array kOptimisers{Optimiser::sgd, Optimiser::momentum, Optimiser::adagrad,
                                        Optimiser::adam};
inline constexpr std::size_t kMostSlots = 2;

constexpr std::string_view name_of(Optimiser optimiser) {
  constexpr std::string_view names[] = {"sgd", "momentum", "adagrad", "adam"};
  return names[static_cast<std::size_t>(optimiser)];
}

// The number of slots: none; the accumulated gradients; their squares; the two moments.
constexpr std::size_t slots_of(Optimiser optimiser) {
  constexpr std::size_t slots[] = {0, 1, 1, 2};
  return slots[static_cast<std::size_t>(optimiser)];
}

inline Optimiser optimiser_named(std::string_view name) {
  std::string valid;
  for (const Optimiser optimiser : kOptimisers) {
    if (name_of(optimiser) == name) return optimiser;
    valid.append(valid.empty() ? "" : ", ").append(name_of(optimiser));
  }
  throw std::invalid_argument("optimiser is '" + std::string(name) + "'; allowed: " + valid);
}

// The hyperparameters. All but the first are the defaults of tf.compat.v1.train.AdagradOptimizer and
// AdamOptimizer; MomentumOptimizer has no default, and 0.9 is what most users give it.
inline constexpr double kMomentum = 0.9;
inline constexpr double kAdagradInitial = 0.1;  // of the slot
inline constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

// The value of every slot before the first update.
constexpr double initial_slot(Optimiser optimiser) {
  return optimiser == Optimiser::adagrad ? kAdagradInitial : 0;
}

// The hyperparameters of the loops but for the learning rate; a loop ignores those of other optimisers.
template <std::floating_point T>
struct Hyperparameters {
  T momentum;                 // of momentum: how much of the sum of gradients a step keeps
  T first_rate, second_rate;  // of Adam: the weight of a gradient, and of its square, in the moments
  T epsilon;                  // Adam adds it to the root of the second moment, Adagrad to the sum of squares

  // Those of TensorFlow, whose Adagrad has no epsilon.
  static constexpr Hyperparameters of(Optimiser optimiser) noexcept {
    return {.momentum = static_cast<T>(kMomentum),
            .first_rate = T{1} - static_cast<T>(kBeta1),
            .second_rate = T{1} - static_cast<T>(kBeta2),
            .epsilon = optimiser == Optimiser::adam ? static_cast<T>(kEpsilon) : T{0}};
  }
};

// The hyperparameters that an optimiser's loop uses, separated by ", "; empty for one without slots.
constexpr std::string_view hyperparameters_of(Optimiser optimiser) {
  constexpr std::string_view names[] = {"", "momentum", "epsilon", "first_rate, second_rate, epsilon"};
  return names[static_cast<std::size_t>(optimiser)];
}

// TensorFlow's hyperparameters, except for those `given` as "name=number". Throws std::invalid_argument for a
// name that the optimiser does not use or that is given twice, and for a number that is negative or not
// finite.
template <std::floating_point T>
Hyperparameters<T> parse_hyperparameters(Optimiser optimiser, std::span<const std::string> given);

// A loop over `n` elements and their slots, in order of address, as tmflow::Kernel: each product is rounded,
// so every build computes the same bits.
template <std::floating_point T>
using SlotKernel = void (*)(T* variable, T* const* slots, const T* delta, T alpha,
                            const Hyperparameters<T>& hyper, std::size_t n) noexcept;

// The slots of a variable and the rule that updates them with it. The memory outlives every update.
//
// Contract and memory ordering: those of the strategy that runs the rule on a range. A strategy that holds a
// lock, or a transaction, over a range of elements holds it over their slots, which no other thread accesses
// except by an update of those elements. Without one, each array by itself may lose an update, and so an
// element and its slots may contain different updates (Shadow counts them).
template <std::floating_point T>
struct Slots {
  SlotKernel<T> kernel;
  Hyperparameters<T> hyper = {};
  std::array<T*, kMostSlots> memory{};  // null where the optimiser has no slot

  std::size_t count() const noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(memory, [](const T* slot) { return slot != nullptr; }));
  }

  // The slots from this element on.
  std::array<T*, kMostSlots> from(std::size_t element) const noexcept {
    std::array<T*, kMostSlots> begin = memory;
    for (T*& slot : begin) {
      if (slot != nullptr) slot += element;
    }
    return begin;
  }
};

// The loop of an optimiser with slots, for the widest vectors of this processor.
template <std::floating_point T>
SlotKernel<T> find_slot_kernel(Optimiser optimiser, std::string_view optimisation = "O3") noexcept;

}  // namespace tmflow
