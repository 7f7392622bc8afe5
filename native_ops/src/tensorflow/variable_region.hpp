// TensorFlow's variables as regions.
#pragma once

#include <cstring>
#include <span>

#include "status_error.hpp"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tmflow/checks.hpp"
#include "tmflow/foreign_region.hpp"
#include "tmflow/htm/mutex_word.hpp"

// TensorFlow's mutex is an absl::Mutex and nothing else. Its state word comes first; of its bits (absl's
// mutex.cc) kMuReader and kMuWriter tell that it is taken, the others speak of who waits.
template <>
struct tmflow::htm::TakenBits<tensorflow::mutex> {
  static constexpr std::uint32_t value = 0x0001 | 0x0008;
};

namespace tmflow::tf {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using Mutex = tensorflow::mutex;

// What an update reads beside the variable, of the kernel that runs it.
template <class T>
struct Operands {
  virtual ~Operands() = default;
  // Throws StatusError unless the variable's shape is the one that they fit.
  virtual void check_shape(const tensorflow::TensorShape& variable) const = 0;
  // Throws std::invalid_argument where one of them is memory of the variable's own.
  virtual void check_apart(std::span<const T> variable) const = 0;
};

// The elements of a tensor.
template <class T>
std::span<const T> elements_of(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return {flat.data(), static_cast<std::size_t>(flat.size())};
}

// A variable of either kind, for the time of one update by `operands`, or of a look at it without any (null).
template <class T>
class VariableRegion : public ForeignRegion<T> {
 public:
  VariableRegion(Mutex& mutex, const Operands<T>* operands)
      : ForeignRegion<T>(ForeignMutex(mutex)), variable_mutex_(mutex), operands_(operands) {}

  // The mutex as TensorFlow knows it; a strategy takes it by ForeignRegion::mutex.
  Mutex& variable_mutex() { return variable_mutex_; }

  // As `memory` has found it.
  const tensorflow::TensorShape& shape() const { return pinned_.shape(); }

  // Throws StatusError for an uninitialised variable and for one of another shape, and std::invalid_argument
  // where an operand is the variable's own memory.
  std::span<T> memory(Holding holding) override {
    pinned_ = current(holding);
    const auto variable = pinned_.flat<T>();
    const std::span<T> elements(variable.data(), static_cast<std::size_t>(variable.size()));
    if (operands_ != nullptr) operands_->check_apart(elements);
    return elements;
  }

 protected:
  void check(bool initialised, const Tensor& value) const {
    if (!initialised) throw StatusError(absl::FailedPreconditionError("the variable is not initialized"));
    if (value.dtype() != tensorflow::DataTypeToEnum<T>::value) {
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat("the variable is ", tensorflow::DataTypeString(value.dtype()), " and delta is ",
                       tensorflow::DataTypeString(tensorflow::DataTypeToEnum<T>::value),
                       ": they must have the same type")));
    }
    if (operands_ != nullptr) operands_->check_shape(value.shape());
  }

 private:
  // The variable's tensor, checked, in memory that may be written in place.
  virtual Tensor current(Holding holding) = 0;

  Mutex& variable_mutex_;
  const Operands<T>* const operands_;
  Tensor pinned_;  // keeps the memory while the update runs, whatever is assigned meanwhile
};

// A reference variable, input `index` of the kernel. Its memory is its own: Assign copies into it.
template <class T>
class RefRegion final : public VariableRegion<T> {
 public:
  RefRegion(OpKernelContext* context, int index, const Operands<T>* operands)
      : VariableRegion<T>(*context->input_ref_mutex(index), operands), context_(context), index_(index) {}

 private:
  Tensor current(Holding holding) override {
    Tensor tensor = context_->mutable_input(index_, holding == Holding::mutex);
    this->check(tensor.IsInitialized(), tensor);
    return tensor;
  }

  OpKernelContext* context_;
  int index_;
};

// A resource variable. Assigning to it makes it share the buffer of the value assigned, perhaps a constant,
// which an update in place would change. So the first update after an assignment moves the variable to a copy
// that is its own, and `own` remembers that copy: as long as the variable's tensor is in the buffer that
// `own` holds, nothing but the variable and its readers shares it. (A count of references cannot tell readers
// from a constant.) Assigning again brings in another buffer and so another copy; `own` holds the old buffer
// until then, so no new value can get the old address.
//
// `own` belongs to the variable, not to a kernel: all kernels that update the variable agree on its buffer,
// and none copies because another one did. It is guarded by the variable's mutex.
template <class T>
class ResourceRegion final : public VariableRegion<T> {
 public:
  ResourceRegion(OpKernelContext* context, tensorflow::Var& variable, Tensor& own,
                 const Operands<T>* operands)
      : VariableRegion<T>(*variable.mu(), operands), context_(context), variable_(variable), own_(own) {}

 private:
  Tensor current(Holding holding) override {
    if (holding == Holding::mutex) return made_own();
    {
      tensorflow::tf_shared_lock reading(*variable_.mu());
      this->check(variable_.is_initialized, *variable_.tensor());
      if (is_own()) return *variable_.tensor();
    }
    tensorflow::mutex_lock writing(*variable_.mu());
    return made_own();
  }

  // The two below need the variable's mutex: shared for the first, exclusive for the second.
  bool is_own() const { return own_.IsInitialized() && variable_.tensor()->SharesBufferWith(own_); }

  Tensor made_own() {
    Tensor& tensor = *variable_.tensor();
    this->check(variable_.is_initialized, tensor);
    if (!is_own() && tensor.NumElements() > 0) {
      Tensor copy;
      throw_if_error(context_->allocate_temp(tensor.dtype(), tensor.shape(), &copy));
      std::memcpy(copy.data(), tensor.data(), tensor.TotalBytes());
      tensor = copy;
      own_ = copy;
    }
    return tensor;
  }

  OpKernelContext* context_;
  tensorflow::Var& variable_;
  Tensor& own_;
};

// The resource variable in input `index` of a kernel.
inline tensorflow::core::RefCountPtr<tensorflow::Var> variable_input(OpKernelContext* context, int index) {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
  const auto& handle = tensorflow::HandleFromInput(context, index);
  absl::Status status = tensorflow::LookupResource(context, handle, &variable);
  if (absl::IsNotFound(status)) {
    status =
        absl::FailedPreconditionError(absl::StrCat("the variable ", handle.name(), " is not initialized"));
  }
  throw_if_error(status);
  return variable;
}

}  // namespace tmflow::tf
