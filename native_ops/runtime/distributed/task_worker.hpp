// The worker of this task: TensorFlow's, with the two methods that TensorFlow leaves to each transport, and
// with graphs that run under the executor of their session's configuration.
#pragma once

#include <functional>

#include "tensorflow/core/distributed_runtime/worker.h"

namespace tmflow::runtime {

class TaskWorker final : public tensorflow::Worker {
 public:
  using Received = std::function<void(const absl::Status&, const tensorflow::Tensor&, bool is_dead)>;

  using Worker::Worker;

  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                          tensorflow::RegisterGraphResponse* response,
                          tensorflow::StatusCallback done) override;

  // Waits for the tensor that a step of this task sends under the key of the request.
  void receive_async(const tensorflow::RecvTensorRequest& request, Received done);

  // The part of a tensor that a collective operation of this task provides.
  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) override;
};

}  // namespace tmflow::runtime
