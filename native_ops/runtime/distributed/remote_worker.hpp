// The worker service of another task.
#pragma once

#include <memory>
#include <utility>

#include "tensorflow/core/distributed_runtime/worker_interface.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class RemoteWorker final : public tensorflow::WorkerInterface {
 public:
  explicit RemoteWorker(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) {}

  void GetStatusAsync(tensorflow::CallOptions* options, const tensorflow::GetStatusRequest* request,
                      tensorflow::GetStatusResponse* response, bool fail_fast,
                      tensorflow::StatusCallback done) override;
  void CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                tensorflow::CreateWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;
  void DeleteWorkerSessionAsync(tensorflow::CallOptions* options,
                                const tensorflow::DeleteWorkerSessionRequest* request,
                                tensorflow::DeleteWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override;
  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                          tensorflow::RegisterGraphResponse* response,
                          tensorflow::StatusCallback done) override;
  void DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                            tensorflow::DeregisterGraphResponse* response,
                            tensorflow::StatusCallback done) override;
  void RunGraphAsync(tensorflow::CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                     tensorflow::MutableRunGraphResponseWrapper* response,
                     tensorflow::StatusCallback done) override;
  void RunGraphAsync(tensorflow::CallOptions* options, const tensorflow::RunGraphRequest* request,
                     tensorflow::RunGraphResponse* response, tensorflow::StatusCallback done) override;
  void CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request,
                         tensorflow::CleanupGraphResponse* response,
                         tensorflow::StatusCallback done) override;
  void CleanupAllAsync(const tensorflow::CleanupAllRequest* request, tensorflow::CleanupAllResponse* response,
                       tensorflow::StatusCallback done) override;
  void RecvTensorAsync(tensorflow::CallOptions* options, const tensorflow::RecvTensorRequest* request,
                       tensorflow::TensorResponse* response, tensorflow::StatusCallback done) override;
  void LoggingAsync(const tensorflow::LoggingRequest* request, tensorflow::LoggingResponse* response,
                    tensorflow::StatusCallback done) override;
  void TracingAsync(const tensorflow::TracingRequest* request, tensorflow::TracingResponse* response,
                    tensorflow::StatusCallback done) override;
  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) override;
  void CompleteGroupAsync(tensorflow::CallOptions* options, const tensorflow::CompleteGroupRequest* request,
                          tensorflow::CompleteGroupResponse* response,
                          tensorflow::StatusCallback done) override;
  void CompleteInstanceAsync(tensorflow::CallOptions* options,
                             const tensorflow::CompleteInstanceRequest* request,
                             tensorflow::CompleteInstanceResponse* response,
                             tensorflow::StatusCallback done) override;
  void GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest* request,
                            tensorflow::GetStepSequenceResponse* response,
                            tensorflow::StatusCallback done) override;

 private:
  // Deleted by the cache of workers that made it.
  ~RemoteWorker() override = default;

  std::shared_ptr<Peer> peer_;
};

}  // namespace tmflow::runtime
