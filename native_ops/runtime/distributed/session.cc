#include "session.hpp"

#include <unordered_map>

#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/distributed_runtime/request_id.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace tmflow::runtime {

using tensorflow::CallOptions;
using tensorflow::Tensor;

absl::Status ClusterSession::get_handle(std::string* handle) {
  const absl::MutexLock lock(&mutex_);
  if (handle_.empty())
    return tensorflow::errors::FailedPrecondition("the session has no graph yet, or is closed");
  *handle = handle_;
  return absl::OkStatus();
}

absl::Status ClusterSession::Create(const tensorflow::GraphDef& graph) {
  const absl::MutexLock lock(&mutex_);
  if (!handle_.empty()) return tensorflow::errors::AlreadyExists("the session has a graph; extend it");
  tensorflow::CreateSessionRequest request;
  *request.mutable_config() = options_.config;
  *request.mutable_graph_def() = graph;
  // The master compares it with the addresses of a cluster in the options.
  request.set_target(options_.target.substr(options_.target.find("://") + 3));
  tensorflow::CreateSessionResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  absl::Status status = master_->CreateSession(&call, &request, &response);
  if (status.ok()) {
    handle_ = response.session_handle();
    graph_version_ = response.graph_version();
  }
  return status;
}

absl::Status ClusterSession::Extend(const tensorflow::GraphDef& graph) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!handle_.empty()) {
      tensorflow::ExtendSessionRequest request;
      request.set_session_handle(handle_);
      *request.mutable_graph_def() = graph;
      request.set_current_graph_version(graph_version_);
      tensorflow::ExtendSessionResponse response;
      CallOptions call;
      call.SetTimeout(options_.config.operation_timeout_in_ms());
      absl::Status status = master_->ExtendSession(&call, &request, &response);
      if (status.ok()) graph_version_ = response.new_graph_version();
      return status;
    }
  }
  return Create(graph);
}

absl::Status ClusterSession::Run(const std::vector<std::pair<std::string, Tensor>>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<std::string>& targets, std::vector<Tensor>* values) {
  return run({}, inputs, outputs, targets, "", values, nullptr);
}

absl::Status ClusterSession::Run(const tensorflow::RunOptions& run_options,
                                 const std::vector<std::pair<std::string, Tensor>>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<std::string>& targets, std::vector<Tensor>* values,
                                 tensorflow::RunMetadata* metadata) {
  return run(run_options, inputs, outputs, targets, "", values, metadata);
}

absl::Status ClusterSession::run(tensorflow::RunOptions run_options,
                                 const std::vector<std::pair<std::string, Tensor>>& inputs,
                                 const std::vector<std::string>& outputs,
                                 const std::vector<std::string>& targets, const std::string& partial_run,
                                 std::vector<Tensor>* values, tensorflow::RunMetadata* metadata) {
  std::string handle;
  if (absl::Status status = get_handle(&handle); !status.ok()) return status;
  if (run_options.timeout_in_ms() == 0)
    run_options.set_timeout_in_ms(options_.config.operation_timeout_in_ms());
  const std::unique_ptr<tensorflow::MutableRunStepRequestWrapper> request(master_->CreateRunStepRequest());
  const std::unique_ptr<tensorflow::MutableRunStepResponseWrapper> response(master_->CreateRunStepResponse());
  request->set_session_handle(handle);
  *request->mutable_options() = run_options;
  if (!partial_run.empty()) request->set_partial_run_handle(partial_run);
  for (const auto& [name, tensor] : inputs) request->add_feed(name, tensor);
  for (const std::string& name : targets) request->add_target(name);
  std::unordered_map<std::string, std::size_t> place;
  for (const std::string& name : outputs) {
    if (place.emplace(name, place.size()).second) request->add_fetch(name);
  }

  CallOptions call;
  call.SetTimeout(run_options.timeout_in_ms());
  if (absl::Status status = master_->RunStep(&call, request.get(), response.get()); !status.ok())
    return status;
  if (values != nullptr) values->resize(place.size());
  for (std::size_t i = 0; i < response->num_tensors(); ++i) {
    const auto at = place.find(response->tensor_name(i));
    if (at == place.end() || values == nullptr) {
      return tensorflow::errors::Internal("the master sent ", response->tensor_name(i),
                                          ", which nobody asked for");
    }
    if (absl::Status status = response->TensorValue(i, &(*values)[at->second]); !status.ok()) return status;
  }
  if (metadata != nullptr) metadata->Swap(response->mutable_metadata());
  return absl::OkStatus();
}

absl::Status ClusterSession::PRunSetup(const std::vector<std::string>& inputs,
                                       const std::vector<std::string>& outputs,
                                       const std::vector<std::string>& targets, std::string* handle) {
  tensorflow::PartialRunSetupRequest request;
  if (absl::Status status = get_handle(request.mutable_session_handle()); !status.ok()) return status;
  for (const std::string& name : inputs) request.add_feed(name);
  for (const std::string& name : outputs) request.add_fetch(name);
  for (const std::string& name : targets) request.add_target(name);
  tensorflow::PartialRunSetupResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  absl::Status status = master_->PartialRunSetup(&call, &request, &response);
  if (status.ok()) *handle = response.partial_run_handle();
  return status;
}

absl::Status ClusterSession::PRun(const std::string& handle,
                                  const std::vector<std::pair<std::string, Tensor>>& inputs,
                                  const std::vector<std::string>& outputs, std::vector<Tensor>* values) {
  return run({}, inputs, outputs, {}, handle, values, nullptr);
}

absl::Status ClusterSession::MakeCallable(const tensorflow::CallableOptions& options,
                                          CallableHandle* callable) {
  tensorflow::MakeCallableRequest request;
  if (absl::Status status = get_handle(request.mutable_session_handle()); !status.ok()) return status;
  *request.mutable_options() = options;
  request.set_request_id(tensorflow::GetUniqueRequestId());
  tensorflow::MakeCallableResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  absl::Status status = master_->MakeCallable(&call, &request, &response);
  if (status.ok()) *callable = response.handle();
  return status;
}

absl::Status ClusterSession::RunCallable(CallableHandle callable, const std::vector<Tensor>& feeds,
                                         std::vector<Tensor>* fetches, tensorflow::RunMetadata* metadata) {
  tensorflow::RunCallableRequest request;
  if (absl::Status status = get_handle(request.mutable_session_handle()); !status.ok()) return status;
  request.set_handle(callable);
  request.set_request_id(tensorflow::GetUniqueRequestId());
  for (const Tensor& feed : feeds) feed.AsProtoTensorContent(request.add_feed());
  tensorflow::RunCallableResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  if (absl::Status status = master_->RunCallable(&call, &request, &response); !status.ok()) return status;
  for (const tensorflow::TensorProto& fetched : response.fetch()) {
    if (!fetches->emplace_back().FromProto(fetched)) {
      return tensorflow::errors::Internal("the master sent a tensor that is malformed");
    }
  }
  if (metadata != nullptr) metadata->Swap(response.mutable_metadata());
  return absl::OkStatus();
}

absl::Status ClusterSession::ReleaseCallable(CallableHandle callable) {
  tensorflow::ReleaseCallableRequest request;
  if (absl::Status status = get_handle(request.mutable_session_handle()); !status.ok()) return status;
  request.set_handle(callable);
  tensorflow::ReleaseCallableResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  return master_->ReleaseCallable(&call, &request, &response);
}

absl::Status ClusterSession::ListDevices(std::vector<tensorflow::DeviceAttributes>* devices) {
  tensorflow::ListDevicesRequest request;
  {
    const absl::MutexLock lock(&mutex_);
    request.set_session_handle(handle_);
  }
  tensorflow::ListDevicesResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  absl::Status status = master_->ListDevices(&call, &request, &response);
  devices->assign(response.local_device().begin(), response.local_device().end());
  devices->insert(devices->end(), response.remote_device().begin(), response.remote_device().end());
  return status;
}

absl::Status ClusterSession::Close() {
  tensorflow::CloseSessionRequest request;
  {
    const absl::MutexLock lock(&mutex_);
    request.mutable_session_handle()->swap(handle_);
  }
  if (request.session_handle().empty()) return absl::OkStatus();
  tensorflow::CloseSessionResponse response;
  CallOptions call;
  call.SetTimeout(options_.config.operation_timeout_in_ms());
  return master_->CloseSession(&call, &request, &response);
}

}  // namespace tmflow::runtime
