// What the native driver trains: a list of variables, and a pass over a batch.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "tmflow/train/gradients.hpp"
#include "tmflow/train/placement.hpp"
#include "tmflow/train/training_set.hpp"

namespace tmflow::train {

// State of one worker: it keeps the values between the layers, so that a step allocates nothing.
template <std::floating_point T>
class Pass {
 public:
  virtual ~Pass() = default;

  // Forward and backward pass over one batch. `read` is the beginning of each variable, in the model's order,
  // as this step reads it. It may be the shared memory itself, which others update in the meantime. Returns
  // the loss before the step.
  virtual T step(std::span<const T* const> read, const Batch<T>& batch, Gradients<T>& gradients) = 0;
};

template <std::floating_point T>
class Model {
 public:
  virtual ~Model() = default;
  virtual std::vector<VariableShape> variables() const = 0;
  virtual std::size_t pixels() const = 0;             // of an image, or the number of all features
  virtual bool takes_images() const { return true; }  // and not examples that have a few of many features
  virtual std::size_t features_of_example() const { return 0; }  // 0: any number
  virtual std::size_t classes() const = 0;
  // For batches of at most this many examples.
  virtual std::unique_ptr<Pass<T>> make_pass(std::size_t batch) const = 0;
};

}  // namespace tmflow::train
