// A tensor on its way between tasks: its type and shape as a protocol buffer, and its bytes from and to where
// they are.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "tensorflow/core/distributed_runtime/tensor_coding.h"
#include "tensorflow/core/framework/tensor.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

// The answer with a tensor. Tensors of strings and other objects have no bytes to send, and are encoded in
// the header.
Message to_message(const tensorflow::Tensor& tensor, bool is_dead);

// Receives an answer with a tensor into `response`, which was given its allocator.
class TensorReceiver {
 public:
  explicit TensorReceiver(tensorflow::TensorResponse& response) : response_(response) {}

  // A Place: allocates the tensor. Null if the header does not describe a tensor of this size.
  char* allocate(const std::string& header, std::size_t size);

  // After the answer has arrived: decodes the tensor from the header if it had no body.
  absl::Status finish(const std::string& header);

 private:
  tensorflow::TensorResponse& response_;
  bool has_body_ = false;
};

}  // namespace tmflow::runtime
