// Memory that belongs to one resource variable alone, so that an update may write it in place.
#pragma once

#include <atomic>
#include <cstring>
#include <utility>

#include "status_error.hpp"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/lib/core/refcount.h"
#include "tmflow/sync/waiting.hpp"

namespace tmflow::tf {

using tensorflow::Tensor;

// A buffer to which one variable was moved. It holds exactly one reference to TensorFlow's buffer, and the
// variable's tensor holds another one. So a count of two means that there is no other holder. Any other count
// means that there is one: another variable that was assigned from this one, or the value that a step has
// read. Updates in progress and views (TmflowResourceView) hold this object instead, so they do not count.
//
// It is itself a TensorFlow buffer, that of the views. It does not own the memory, so no kernel reuses the
// memory of a view for its output.
class OwnMemory final : public tensorflow::TensorBuffer {
 public:
  explicit OwnMemory(const Tensor& tensor) : TensorBuffer(tensor.data()), tensor_(tensor) {}

  bool is_of(const Tensor& tensor) const { return tensor.SharesBufferWith(tensor_); }
  // Whether `variable`, which is_of, and this object are the only holders of the buffer. A tensor of a part
  // of a buffer (count -1) is never the only one.
  bool is_alone_with(const Tensor& variable) const { return variable.RefCount() == 2; }

  // The updates in progress that may write the memory without the variable's mutex.
  std::atomic<int> writers{0};

  std::size_t size() const override { return tensor_.TotalBytes(); }
  tensorflow::TensorBuffer* root_buffer() override {
    return tensorflow::DMAHelper::buffer(&tensor_)->root_buffer();
  }
  void FillAllocationDescription(tensorflow::AllocationDescription* proto) const override {
    tensorflow::DMAHelper::buffer(&tensor_)->FillAllocationDescription(proto);
  }
  bool OwnsMemory() const override { return false; }

 private:
  Tensor tensor_;
};

using OwnMemoryPtr = tensorflow::core::RefCountPtr<OwnMemory>;

// The duration of an update that writes the memory without the variable's mutex; movable. Null for an empty
// variable.
class Writing {
 public:
  Writing() = default;
  explicit Writing(OwnMemoryPtr memory) : memory_(std::move(memory)) {
    if (memory_) memory_->writers.fetch_add(1, std::memory_order_relaxed);
  }
  Writing(Writing&& other) noexcept : memory_(std::move(other.memory_)) {}
  Writing& operator=(Writing&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
  }
  ~Writing() {
    if (memory_) memory_->writers.fetch_sub(1, std::memory_order_release);
  }

 private:
  OwnMemoryPtr memory_;
};

// The memory that belongs to a resource variable alone.
//
// An assignment to a resource variable makes it share the buffer of the assigned value: a constant's, a
// feed's or another variable's. A read makes the reader share its buffer. TensorFlow's own updates copy the
// variable first whenever there is another holder of its buffer, and so do ours. Contract: an update changes
// no value that was read or assigned before the update began; an update that holds the variable's mutex while
// it writes changes none that was read before it locked the mutex. Only views see later updates.
//
// A copy must not miss the writes of an update in progress. An update that writes under the mutex has
// finished when the next one copies. Others are counted from `begin_writing` on, and a copy is made only when
// there are none. They all finish: none of them waits for an update that has not begun, and as long as there
// is another holder of the buffer, no further one begins. An update that writes several variables (the slots
// of an optimiser) begins them one after another; if all updates that share two of them begin these in the
// same order, none waits for one that waits for it.
//
// Memory ordering: everything except `writers` is guarded by the variable's mutex. An update counts itself
// while it holds the mutex, at least shared; a copy is made under the exclusive mutex, so that it sees all
// earlier updates and excludes later ones. An update that ends releases its writes, and a thread that finds
// no writers acquires them. The count of references acquires what its holders did before they released it.
//
// In copy-on-read mode (a variable that was read or updated sparsely) TensorFlow never shares the buffer:
// readers copy it under the mutex. So the update is in place there, too.
class MemoryOfVariable {
 public:
  using OpKernelContext = tensorflow::OpKernelContext;

  // Null unless the variable has private memory. Must be called under the variable's mutex, at least shared.
  OwnMemoryPtr own(const Tensor& variable) const {
    return own_ && own_->is_of(variable) ? own_.GetNewRef() : OwnMemoryPtr();
  }

  // Begins an update that writes without the mutex. Under the mutex, `check` is called with the variable's
  // tensor and may throw, and finally `begun` is called with the tensor that the update may write.
  template <class Check, class Begun>
  Writing begin_writing(tensorflow::Var& variable, OpKernelContext* context, const Check& check,
                        const Begun& begun) {
    Tensor& tensor = *variable.tensor();
    for (Turn turn;; ++turn) {
      {
        tensorflow::tf_shared_lock reading(*variable.mu());
        check(tensor);
        if (is_private(tensor)) return begun(tensor), Writing(own(tensor));
      }
      {
        tensorflow::mutex_lock writing(*variable.mu());
        check(tensor);
        const OwnMemoryPtr shared = own(tensor);
        if (!shared || shared->writers.load(std::memory_order_acquire) == 0) {
          make_private(tensor, context);
          return begun(tensor), Writing(own(tensor));
        }
      }
      Waiting<std::atomic>::once(turn);
    }
  }

  // For an update that writes under the mutex, which its thread holds exclusively. No other update of the
  // variable writes without it.
  void make_private(Tensor& variable, OpKernelContext* context) {
    if (!is_private(variable)) move_to_copy(variable, context);
  }

 private:
  bool is_private(const Tensor& variable) const {
    return variable.NumElements() == 0 || (own_ && own_->is_of(variable) && own_->is_alone_with(variable));
  }

  void move_to_copy(Tensor& variable, OpKernelContext* context) {
    Tensor copy;
    throw_if_error(context->allocate_temp(variable.dtype(), variable.shape(), &copy));
    std::memcpy(copy.data(), variable.data(), variable.TotalBytes());
    own_.reset(new OwnMemory(copy));
    variable = std::move(copy);
  }

  OwnMemoryPtr own_;
};

}  // namespace tmflow::tf
