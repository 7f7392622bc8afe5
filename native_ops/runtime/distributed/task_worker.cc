#include "task_worker.hpp"

#include <memory>
#include <string>
#include <utility>

#include "graph_executors.hpp"
#include "tensorflow/core/common_runtime/buf_rendezvous.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/distributed_runtime/session_mgr.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/distributed_runtime/worker_session.h"
#include "tensorflow/core/framework/collective.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/protobuf/transport_options.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace tmflow::runtime {

using tensorflow::BufRendezvous;
using tensorflow::Device;
using tensorflow::Rendezvous;

namespace {

// The memory of an accelerator would first have to be copied to the host's.
absl::Status require_host_memory(const Device& device, bool on_host) {
  if (on_host || device.tensorflow_accelerator_device_info() == nullptr) return absl::OkStatus();
  return tensorflow::errors::Unimplemented("this transport sends tensors of the host's memory, and ",
                                           device.name(), " has memory of its own");
}

}  // namespace

void TaskWorker::RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                                    tensorflow::RegisterGraphResponse* response,
                                    tensorflow::StatusCallback done) {
  const std::string& type = request->config_proto().experimental().executor_type();
  if (type.empty() || type == "DEFAULT") {
    Worker::RegisterGraphAsync(request, response, std::move(done));
    return;
  }
  Worker::RegisterGraphAsync(
      request, response, [this, request, response, done](const absl::Status& registered) {
        std::shared_ptr<tensorflow::WorkerSession> session;
        absl::Status status = registered;
        if (status.ok() && request->create_worker_session_called()) {
          status = env_->session_mgr->WorkerSessionForSession(request->session_handle(), &session);
        } else if (status.ok()) {
          session = env_->session_mgr->LegacySession();
        }
        if (status.ok()) {
          status = use_executor(request->config_proto().experimental().executor_type(),
                                request->session_handle(), response->graph_handle(), *session->graph_mgr());
          if (!status.ok()) session->graph_mgr()->Deregister(response->graph_handle()).IgnoreError();
        }
        done(status);
      });
}

void TaskWorker::receive_async(const tensorflow::RecvTensorRequest& request, Received done) {
  Rendezvous::ParsedKey key;
  Device* source = nullptr;
  absl::Status status = recent_request_ids_.TrackUnique(request.request_id(), "RecvTensor", request);
  if (status.ok()) status = Rendezvous::ParseKey(request.rendezvous_key(), &key);
  if (status.ok()) status = PrepareRecvTensor(key, &source);
  if (!status.ok()) {
    done(status, tensorflow::Tensor(), false);
    return;
  }
  env_->rendezvous_mgr->RecvLocalAsync(
      request.step_id(), key,
      [source, done = std::move(done)](const absl::Status& sent, const Rendezvous::Args& send,
                                       const Rendezvous::Args&, const tensorflow::Tensor& tensor,
                                       bool is_dead) {
        done(sent.ok() ? require_host_memory(*source, send.alloc_attrs.on_host()) : sent, tensor, is_dead);
      });
}

void TaskWorker::RecvBufAsync(tensorflow::CallOptions*, const tensorflow::RecvBufRequest* request,
                              tensorflow::RecvBufResponse* response, tensorflow::StatusCallback done) {
  const tensorflow::CollectiveExecutor::Handle executor(
      env_->collective_executor_mgr->FindOrCreate(request->step_id()), /*inherit_ref=*/true);
  executor.get()->remote_access()->buf_rendezvous()->ConsumeBuf(
      request->buf_rendezvous_key(), request->src_device(), request->src_incarnation(),
      [response, done = std::move(done)](const absl::Status& provided, BufRendezvous::Hook* hook) {
        absl::Status status = provided;
        if (status.ok()) status = require_host_memory(*hook->prod_dev, hook->prod_attr.on_host());
        if (status.ok()) {
          tensorflow::RecvBufRespExtra bytes;
          bytes.add_tensor_content(std::string(hook->prod_value->tensor_data()));
          response->mutable_transport_options()->PackFrom(bytes);
        }
        done(status);
        if (hook != nullptr) BufRendezvous::DoneWithHook(hook);
      },
      /*cancellation_manager=*/nullptr);
}

}  // namespace tmflow::runtime
