#include "remote_worker.hpp"

#include <string>

#include "calls.hpp"
#include "tensor_message.hpp"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace tmflow::runtime {

using tensorflow::CallOptions;
using tensorflow::StatusCallback;

void RemoteWorker::GetStatusAsync(CallOptions* options, const tensorflow::GetStatusRequest* request,
                                  tensorflow::GetStatusResponse* response, bool fail_fast,
                                  StatusCallback done) {
  call(peer_, Method::kGetStatus, *request, *response, options, std::move(done), /*wait=*/!fail_fast);
}

void RemoteWorker::CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                            tensorflow::CreateWorkerSessionResponse* response,
                                            StatusCallback done) {
  call(peer_, Method::kCreateWorkerSession, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::DeleteWorkerSessionAsync(CallOptions* options,
                                            const tensorflow::DeleteWorkerSessionRequest* request,
                                            tensorflow::DeleteWorkerSessionResponse* response,
                                            StatusCallback done) {
  call(peer_, Method::kDeleteWorkerSession, *request, *response, options, std::move(done));
}

void RemoteWorker::RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                                      tensorflow::RegisterGraphResponse* response, StatusCallback done) {
  call(peer_, Method::kRegisterGraph, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                                        tensorflow::DeregisterGraphResponse* response, StatusCallback done) {
  call(peer_, Method::kDeregisterGraph, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::RunGraphAsync(CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                                 tensorflow::MutableRunGraphResponseWrapper* response, StatusCallback done) {
  RunGraphAsync(options, &request->ToProto(), get_proto_from_wrapper(response), std::move(done));
}

void RemoteWorker::RunGraphAsync(CallOptions* options, const tensorflow::RunGraphRequest* request,
                                 tensorflow::RunGraphResponse* response, StatusCallback done) {
  call(peer_, Method::kRunGraph, *request, *response, options, std::move(done));
}

void RemoteWorker::CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request,
                                     tensorflow::CleanupGraphResponse* response, StatusCallback done) {
  call(peer_, Method::kCleanupGraph, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::CleanupAllAsync(const tensorflow::CleanupAllRequest* request,
                                   tensorflow::CleanupAllResponse* response, StatusCallback done) {
  call(peer_, Method::kCleanupAll, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::RecvTensorAsync(CallOptions* options, const tensorflow::RecvTensorRequest* request,
                                   tensorflow::TensorResponse* response, StatusCallback done) {
  auto receiver = std::make_shared<TensorReceiver>(*response);
  call(
      peer_, Method::kRecvTensor, *request, options, /*wait=*/false,
      [receiver](const std::string& header, std::size_t size) { return receiver->allocate(header, size); },
      [receiver, done = std::move(done)](const absl::Status& status, const std::string& header) {
        done(status.ok() ? receiver->finish(header) : status);
      });
}

void RemoteWorker::LoggingAsync(const tensorflow::LoggingRequest* request,
                                tensorflow::LoggingResponse* response, StatusCallback done) {
  call(peer_, Method::kLogging, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::TracingAsync(const tensorflow::TracingRequest* request,
                                tensorflow::TracingResponse* response, StatusCallback done) {
  call(peer_, Method::kTracing, *request, *response, nullptr, std::move(done));
}

void RemoteWorker::RecvBufAsync(CallOptions* options, const tensorflow::RecvBufRequest* request,
                                tensorflow::RecvBufResponse* response, StatusCallback done) {
  call(peer_, Method::kRecvBuf, *request, *response, options, std::move(done));
}

void RemoteWorker::CompleteGroupAsync(CallOptions* options, const tensorflow::CompleteGroupRequest* request,
                                      tensorflow::CompleteGroupResponse* response, StatusCallback done) {
  call(peer_, Method::kCompleteGroup, *request, *response, options, std::move(done));
}

void RemoteWorker::CompleteInstanceAsync(CallOptions* options,
                                         const tensorflow::CompleteInstanceRequest* request,
                                         tensorflow::CompleteInstanceResponse* response,
                                         StatusCallback done) {
  call(peer_, Method::kCompleteInstance, *request, *response, options, std::move(done));
}

void RemoteWorker::GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest* request,
                                        tensorflow::GetStepSequenceResponse* response, StatusCallback done) {
  call(peer_, Method::kGetStepSequence, *request, *response, nullptr, std::move(done));
}

}  // namespace tmflow::runtime
