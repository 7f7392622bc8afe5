// TensorFlow's variables as regions.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "own_memory.hpp"
#include "status_error.hpp"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tmflow/core/checks.hpp"
#include "tmflow/core/foreign_region.hpp"
#include "tmflow/htm/mutex_word.hpp"

// TensorFlow's mutex is exactly an absl::Mutex. Its state word comes first; of its bits (absl's mutex.cc)
// kMuReader and kMuWriter show that it is locked, the others describe waiters.
template <>
struct tmflow::htm::TakenBits<tensorflow::mutex> {
  static constexpr std::uint32_t value = 0x0001 | 0x0008;
};

namespace tmflow::tf {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using Mutex = tensorflow::mutex;

// The operands that an update reads in addition to the variable, in the kernel that runs it.
template <class T>
struct Operands {
  virtual ~Operands() = default;
  // Throws StatusError unless they fit the variable's shape.
  virtual void check_shape(const tensorflow::TensorShape& variable) const = 0;
  // Throws std::invalid_argument if one of them is the memory of the variable, which is called `name`.
  virtual void check_apart(std::span<const T> variable, const std::string& name) const = 0;
};

// The elements of a tensor.
template <class T>
std::span<const T> elements_of(const Tensor& tensor) {
  const auto flat = tensor.flat<T>();
  return {flat.data(), static_cast<std::size_t>(flat.size())};
}

// The memory of a variable as it was fetched, and its shape at that time.
template <class T>
struct Fetched {
  Fetched() = default;
  explicit Fetched(Tensor& tensor) : shape(tensor.shape()) {
    const auto variable = tensor.flat<T>();
    elements = {variable.data(), static_cast<std::size_t>(variable.size())};
  }

  std::span<T> elements;
  tensorflow::TensorShape shape;
};

// A variable of either kind, for the duration of one update with `operands`, or of an access without operands
// (null).
template <class T>
class VariableRegion : public ForeignRegion<T> {
 public:
  // `name`: what messages call it.
  VariableRegion(Mutex& mutex, const Operands<T>* operands, std::string name)
      : ForeignRegion<T>(ForeignMutex(mutex)),
        variable_mutex_(mutex),
        operands_(operands),
        name_(std::move(name)) {}

  // TensorFlow's mutex; a strategy locks it through ForeignRegion::mutex.
  Mutex& variable_mutex() { return variable_mutex_; }

  // The shape that `memory` found.
  const tensorflow::TensorShape& shape() const { return fetched_.shape; }

  // Throws StatusError for an uninitialised variable and for one of another shape, and std::invalid_argument
  // if an operand is the variable's own memory.
  std::span<T> memory(Holding holding) override {
    fetched_ = fetch(holding);
    if (operands_ != nullptr) operands_->check_apart(fetched_.elements, name_);
    return fetched_.elements;
  }

  // Announces an update that fetches the memory without the mutex; must come first. Throws like `memory`.
  virtual void begin() = 0;

  // Checks the variable as it is now. Throws StatusError like `memory`.
  virtual void inspect() = 0;

 protected:
  void check(bool initialised, const Tensor& value) const {
    if (!initialised) {
      throw StatusError(absl::FailedPreconditionError(absl::StrCat(name_, " is not initialized")));
    }
    if (value.dtype() != tensorflow::DataTypeToEnum<T>::value) {
      throw StatusError(absl::InvalidArgumentError(
          absl::StrCat(name_, " is ", tensorflow::DataTypeString(value.dtype()), " and the gradient is ",
                       tensorflow::DataTypeString(tensorflow::DataTypeToEnum<T>::value),
                       ": they must have the same type")));
    }
    if (operands_ != nullptr) operands_->check_shape(value.shape());
  }

 private:
  // The variable's memory, checked; it stays alive as long as this object, or as the mutex is held.
  virtual Fetched<T> fetch(Holding holding) = 0;

  Mutex& variable_mutex_;
  const Operands<T>* const operands_;
  const std::string name_;
  Fetched<T> fetched_;
};

// A reference variable, input `index` of the kernel. Its memory belongs to it alone: Assign copies into it.
template <class T>
class RefRegion final : public VariableRegion<T> {
 public:
  RefRegion(OpKernelContext* context, int index, const Operands<T>* operands,
            std::string name = "the variable")
      : VariableRegion<T>(*context->input_ref_mutex(index), operands, std::move(name)),
        context_(context),
        index_(index) {}

  void begin() override {}

  void inspect() override {
    const Tensor tensor = context_->mutable_input(index_, /*lock_held=*/false);
    this->check(tensor.IsInitialized(), tensor);
  }

 private:
  Fetched<T> fetch(Holding holding) override {
    pinned_ = context_->mutable_input(index_, holding == Holding::mutex);
    this->check(pinned_.IsInitialized(), pinned_);
    return Fetched<T>(pinned_);
  }

  OpKernelContext* context_;
  int index_;
  Tensor pinned_;  // keeps the memory alive during assignments
};

// How the user of a region accesses the variable.
enum class Access { reads, updates };

// A resource variable, whose memory is `memory_of`. An update writes memory that belongs to the variable
// alone: from `begin` on, or, if it fetches the memory under the mutex, as long as it holds the mutex. A read
// uses the memory as it is.
template <class T>
class ResourceRegion final : public VariableRegion<T> {
 public:
  ResourceRegion(OpKernelContext* context, tensorflow::Var& variable, MemoryOfVariable& memory_of,
                 Access access, const Operands<T>* operands, std::string name = "the variable")
      : VariableRegion<T>(*variable.mu(), operands, std::move(name)),
        context_(context),
        variable_(variable),
        memory_of_(memory_of),
        access_(access) {}

  void begin() override {
    writing_ = memory_of_.begin_writing(
        variable_, context_, [&](const Tensor& tensor) { this->check(variable_.is_initialized, tensor); },
        [&](Tensor& tensor) { begun_ = Fetched<T>(tensor); });
  }

  void inspect() override {
    const tensorflow::tf_shared_lock reading(*variable_.mu());
    this->check(variable_.is_initialized, *variable_.tensor());
  }

 private:
  Fetched<T> fetch(Holding holding) override {
    if (begun_) return *begun_;
    Tensor& tensor = *variable_.tensor();
    if (holding == Holding::mutex) {
      this->check(variable_.is_initialized, tensor);
      if (access_ == Access::updates) memory_of_.make_private(tensor, context_);
      return Fetched<T>(tensor);
    }
    if (access_ == Access::updates) throw std::logic_error("an update without the mutex has not begun");
    tensorflow::tf_shared_lock reading(*variable_.mu());
    this->check(variable_.is_initialized, tensor);
    // A reference to TensorFlow's buffer would make updates copy it, so it is held only if the memory does
    // not belong to one variable.
    own_ = memory_of_.own(tensor);
    if (!own_) pinned_ = tensor;
    return Fetched<T>(tensor);
  }

  OpKernelContext* context_;
  tensorflow::Var& variable_;
  MemoryOfVariable& memory_of_;
  const Access access_;
  std::optional<Fetched<T>> begun_;
  Writing writing_;   // of an update in progress
  OwnMemoryPtr own_;  // for a read: one of these two keeps the memory alive
  Tensor pinned_;
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
