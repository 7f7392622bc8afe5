// The server of a task: it serves the task's worker and master through a transport, and calls those of other
// tasks.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "task_service.hpp"
#include "task_worker.hpp"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/distributed_runtime/master.h"
#include "tensorflow/core/distributed_runtime/master_env.h"
#include "tensorflow/core/distributed_runtime/master_interface.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/distributed_runtime/session_mgr.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class TaskServer final : public tensorflow::ServerInterface {
 public:
  // Starts the server of the task that `definition` names; `protocol` is what targets begin with.
  static absl::Status create(const tensorflow::ServerDef& definition, const std::string& protocol,
                             std::unique_ptr<Transport> transport, std::unique_ptr<ServerInterface>* created);

  ~TaskServer() override;

  // It serves from its creation on, because a session may be opened as soon as its port is known.
  absl::Status Start() override { return absl::OkStatus(); }
  absl::Status Stop() override;
  absl::Status Join() override;
  const std::string target() const override { return target_; }

  tensorflow::WorkerEnv* worker_env() override { return &worker_env_; }
  tensorflow::MasterEnv* master_env() override { return &master_env_; }

  // For eager execution and clusters that change, which need TensorFlow's own server.
  absl::Status UpdateServerDef(const tensorflow::ServerDef&) override;
  absl::Status AddMasterEagerContextToEagerService(uint64_t, tensorflow::EagerContext*) override;
  absl::Status SetCoordinationServiceAgentInstance(tsl::CoordinationServiceAgent*) override;
  absl::Status StopCoordinationService() override { return absl::OkStatus(); }

 private:
  TaskServer(const tensorflow::ServerDef& definition, std::unique_ptr<Transport> transport)
      : definition_(definition), transport_(std::move(transport)) {}

  absl::Status initialise(const std::string& protocol);
  absl::Status add_devices(const tensorflow::SessionOptions& options);
  absl::Status set_up_worker(const tensorflow::SessionOptions& options);
  void set_up_master();
  absl::Status new_worker_cache(const tensorflow::ClusterDef& cluster,
                                tensorflow::WorkerCacheInterface** created);

  const tensorflow::ServerDef definition_;
  const std::unique_ptr<Transport> transport_;
  std::string target_, local_key_;

  // In the order of creation: sessions and graphs use the devices, and the service uses all.
  std::unique_ptr<tensorflow::DeviceMgr> devices_;
  tensorflow::WorkerEnv worker_env_;
  tensorflow::MasterEnv master_env_;
  std::unique_ptr<TaskWorker> worker_;
  std::unique_ptr<tensorflow::RendezvousMgrInterface> rendezvous_;
  std::unique_ptr<tensorflow::SessionMgr> sessions_;
  std::unique_ptr<tensorflow::Master> master_;
  std::unique_ptr<TaskService> service_;

  absl::Mutex mutex_;
  bool stopped_ = false;  // guarded by mutex_
};

// The master of a server of this process, by the target of the server; null if there is none.
std::unique_ptr<tensorflow::MasterInterface> local_master(const std::string& target);

}  // namespace tmflow::runtime
