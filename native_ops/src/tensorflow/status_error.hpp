// TensorFlow's statuses as exceptions, so that they pass through a strategy and release what it holds.
#pragma once

#include <exception>
#include <stdexcept>

#include "tensorflow/core/framework/op_kernel.h"

namespace tmflow::tf {

struct StatusError : std::exception {
  explicit StatusError(absl::Status why) : status(std::move(why)) {}
  const char* what() const noexcept override { return "a TensorFlow status"; }

  absl::Status status;
};

inline void throw_if_error(absl::Status status) {
  if (!status.ok()) throw StatusError(std::move(status));
}

// Runs the body of a kernel; an exception becomes the status of the op.
template <class Body>
void compute(tensorflow::OpKernelContext* context, Body body) {
  try {
    body();
  } catch (const StatusError& error) {
    context->SetStatus(error.status);
  } catch (const std::invalid_argument& error) {
    context->SetStatus(absl::InvalidArgumentError(error.what()));
  } catch (const std::exception& error) {  // an exception of a strategy, which must not end the process
    context->SetStatus(absl::InternalError(error.what()));
  }
}

}  // namespace tmflow::tf
