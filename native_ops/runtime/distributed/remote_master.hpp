// The master service of another task, for a session in a process without a server of its own.
#pragma once

#include <memory>
#include <utility>

#include "tensorflow/core/distributed_runtime/master_interface.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class RemoteMaster final : public tensorflow::MasterInterface {
 public:
  explicit RemoteMaster(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) {}

  absl::Status CreateSession(tensorflow::CallOptions* options,
                             const tensorflow::CreateSessionRequest* request,
                             tensorflow::CreateSessionResponse* response) override;
  absl::Status ExtendSession(tensorflow::CallOptions* options,
                             const tensorflow::ExtendSessionRequest* request,
                             tensorflow::ExtendSessionResponse* response) override;
  absl::Status PartialRunSetup(tensorflow::CallOptions* options,
                               const tensorflow::PartialRunSetupRequest* request,
                               tensorflow::PartialRunSetupResponse* response) override;
  absl::Status RunStep(tensorflow::CallOptions* options, tensorflow::RunStepRequestWrapper* request,
                       tensorflow::MutableRunStepResponseWrapper* response) override;
  absl::Status CloseSession(tensorflow::CallOptions* options, const tensorflow::CloseSessionRequest* request,
                            tensorflow::CloseSessionResponse* response) override;
  absl::Status ListDevices(tensorflow::CallOptions* options, const tensorflow::ListDevicesRequest* request,
                           tensorflow::ListDevicesResponse* response) override;
  absl::Status Reset(tensorflow::CallOptions* options, const tensorflow::ResetRequest* request,
                     tensorflow::ResetResponse* response) override;
  absl::Status MakeCallable(tensorflow::CallOptions* options, const tensorflow::MakeCallableRequest* request,
                            tensorflow::MakeCallableResponse* response) override;
  absl::Status RunCallable(tensorflow::CallOptions* options, const tensorflow::RunCallableRequest* request,
                           tensorflow::RunCallableResponse* response) override;
  absl::Status ReleaseCallable(tensorflow::CallOptions* options,
                               const tensorflow::ReleaseCallableRequest* request,
                               tensorflow::ReleaseCallableResponse* response) override;

 private:
  std::shared_ptr<Peer> peer_;
};

}  // namespace tmflow::runtime
