#include "tensor_message.hpp"

#include <memory>

#include "calls.hpp"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace tmflow::runtime {

Message to_message(const tensorflow::Tensor& tensor, bool is_dead) {
  tensorflow::RecvTensorResponse meta;
  meta.set_is_dead(is_dead);
  meta.set_send_start_micros(tensorflow::Env::Default()->NowMicros());
  Message message;
  if (!is_dead && tensorflow::DataTypeCanUseMemcpy(tensor.dtype()) && tensor.TotalBytes() > 0) {
    meta.mutable_tensor()->set_dtype(tensor.dtype());
    tensor.shape().AsProto(meta.mutable_tensor()->mutable_tensor_shape());
    auto kept = std::make_shared<const tensorflow::Tensor>(tensor);  // a reference to the memory, not a copy
    message.body = {kept->tensor_data().data(), kept->tensor_data().size()};
    message.owner = std::move(kept);
  } else {
    tensor.AsProtoTensorContent(meta.mutable_tensor());
  }
  message.header = meta.SerializeAsString();
  return message;
}

char* TensorReceiver::allocate(const std::string& header, std::size_t size) {
  if (size == 0) return nullptr;  // `finish` decodes it, and checks its shape
  if (const auto* device = response_.device();
      device != nullptr && device->tensorflow_accelerator_device_info() != nullptr) {
    return nullptr;  // its memory is not the host's
  }
  tensorflow::RecvTensorResponse meta;
  if (!meta.ParseFromString(header)) return nullptr;
  // TensorFlow ends the process for a shape that is invalid, so this looks first.
  const tensorflow::TensorProto& tensor = meta.tensor();
  if (!tensorflow::DataTypeCanUseMemcpy(tensor.dtype()) ||
      !tensorflow::TensorShape::IsValid(tensor.tensor_shape())) {
    return nullptr;
  }
  const auto elements =
      static_cast<std::size_t>(tensorflow::TensorShape(tensor.tensor_shape()).num_elements());
  if (elements * static_cast<std::size_t>(tensorflow::DataTypeSize(tensor.dtype())) != size) return nullptr;
  response_.InitPartial(meta, tensorflow::AllocationAttributes());
  const absl::string_view place = response_.tensor().tensor_data();
  if (place.size() != size) return nullptr;  // there was no memory for it
  has_body_ = true;
  return const_cast<char*>(place.data());  // the tensor is new, and nobody else has it yet
}

absl::Status TensorReceiver::finish(const std::string& header) {
  if (has_body_) return absl::OkStatus();
  tensorflow::RecvTensorResponse meta;
  if (absl::Status status = parse(header, Method::kRecvTensor, meta); !status.ok()) return status;
  return response_.InitFrom(&meta);
}

}  // namespace tmflow::runtime
