#include "remote_master.hpp"

#include "calls.hpp"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace tmflow::runtime {

using tensorflow::CallOptions;

absl::Status RemoteMaster::CreateSession(CallOptions* options,
                                         const tensorflow::CreateSessionRequest* request,
                                         tensorflow::CreateSessionResponse* response) {
  return call_and_wait(peer_, Method::kCreateSession, *request, *response, options);
}

absl::Status RemoteMaster::ExtendSession(CallOptions* options,
                                         const tensorflow::ExtendSessionRequest* request,
                                         tensorflow::ExtendSessionResponse* response) {
  return call_and_wait(peer_, Method::kExtendSession, *request, *response, options);
}

absl::Status RemoteMaster::PartialRunSetup(CallOptions* options,
                                           const tensorflow::PartialRunSetupRequest* request,
                                           tensorflow::PartialRunSetupResponse* response) {
  return call_and_wait(peer_, Method::kPartialRunSetup, *request, *response, options);
}

absl::Status RemoteMaster::RunStep(CallOptions* options, tensorflow::RunStepRequestWrapper* request,
                                   tensorflow::MutableRunStepResponseWrapper* response) {
  return call_and_wait(peer_, Method::kRunStep, request->ToProto(), *get_proto_from_wrapper(response),
                       options);
}

absl::Status RemoteMaster::CloseSession(CallOptions* options, const tensorflow::CloseSessionRequest* request,
                                        tensorflow::CloseSessionResponse* response) {
  return call_and_wait(peer_, Method::kCloseSession, *request, *response, options);
}

absl::Status RemoteMaster::ListDevices(CallOptions* options, const tensorflow::ListDevicesRequest* request,
                                       tensorflow::ListDevicesResponse* response) {
  return call_and_wait(peer_, Method::kListDevices, *request, *response, options);
}

absl::Status RemoteMaster::Reset(CallOptions* options, const tensorflow::ResetRequest* request,
                                 tensorflow::ResetResponse* response) {
  return call_and_wait(peer_, Method::kReset, *request, *response, options);
}

absl::Status RemoteMaster::MakeCallable(CallOptions* options, const tensorflow::MakeCallableRequest* request,
                                        tensorflow::MakeCallableResponse* response) {
  return call_and_wait(peer_, Method::kMakeCallable, *request, *response, options);
}

absl::Status RemoteMaster::RunCallable(CallOptions* options, const tensorflow::RunCallableRequest* request,
                                       tensorflow::RunCallableResponse* response) {
  return call_and_wait(peer_, Method::kRunCallable, *request, *response, options);
}

absl::Status RemoteMaster::ReleaseCallable(CallOptions* options,
                                           const tensorflow::ReleaseCallableRequest* request,
                                           tensorflow::ReleaseCallableResponse* response) {
  return call_and_wait(peer_, Method::kReleaseCallable, *request, *response, options);
}

}  // namespace tmflow::runtime
