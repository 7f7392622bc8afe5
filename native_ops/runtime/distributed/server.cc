#include "server.hpp"

#include <atomic>
#include <exception>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tensorflow/core/common_runtime/device_factory.h"
#include "tensorflow/core/common_runtime/process_util.h"
#include "tensorflow/core/common_runtime/stats_publisher_interface.h"
#include "tensorflow/core/distributed_runtime/local_master.h"
#include "tensorflow/core/distributed_runtime/master_session.h"
#include "tensorflow/core/distributed_runtime/rpc/rpc_rendezvous_mgr.h"
#include "tensorflow/core/distributed_runtime/rpc_collective_executor_mgr.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/nccl/collective_communicator.h"
#include "worker_cache.hpp"

namespace tmflow::runtime {
namespace {

using tensorflow::Device;

// TensorFlow's registry of masters in this process cannot forget one. So each server is there under a new
// name, and the names of those that still exist are here, by target.
absl::Mutex local_mutex(absl::kConstInit);
std::map<std::string, std::string>& local_keys() {
  static auto* const keys = new std::map<std::string, std::string>;
  return *keys;
}

absl::Status address_of(const tensorflow::ServerDef& definition, std::string* address) {
  for (const tensorflow::JobDef& job : definition.cluster().job()) {
    if (job.name() != definition.job_name()) continue;
    const auto at = job.tasks().find(definition.task_index());
    if (at == job.tasks().end()) break;
    *address = at->second;
    return absl::OkStatus();
  }
  return tensorflow::errors::InvalidArgument("the cluster has no task ", definition.task_index(), " of job '",
                                             definition.job_name(), "'");
}

// Without TensorFlow's coordination service, which speaks gRPC only.
tensorflow::MasterSession* new_master_session(
    tensorflow::SessionOptions options, const tensorflow::MasterEnv* env,
    std::unique_ptr<std::vector<std::unique_ptr<Device>>> remote_devices,
    std::unique_ptr<tensorflow::WorkerCacheInterface> worker_cache,
    std::unique_ptr<tensorflow::DeviceSet> devices, std::vector<std::string> workers) {
  options.config.mutable_experimental()->mutable_coordination_config()->set_force_disable(true);
  return new tensorflow::MasterSession(options, env, std::move(remote_devices), std::move(worker_cache),
                                       std::move(devices), std::move(workers),
                                       tensorflow::CreateNoOpStatsPublisher);
}

}  // namespace

std::unique_ptr<tensorflow::MasterInterface> local_master(const std::string& target) {
  const absl::MutexLock lock(&local_mutex);
  const auto at = local_keys().find(target);
  return at == local_keys().end() ? nullptr : tensorflow::LocalMaster::Lookup(at->second);
}

absl::Status TaskServer::create(const tensorflow::ServerDef& definition, const std::string& protocol,
                                std::unique_ptr<Transport> transport,
                                std::unique_ptr<ServerInterface>* created) {
  std::unique_ptr<TaskServer> server(new TaskServer(definition, std::move(transport)));
  if (absl::Status status = server->initialise(protocol); !status.ok()) return status;
  *created = std::move(server);
  return absl::OkStatus();
}

absl::Status TaskServer::initialise(const std::string& protocol) {
  std::string address;
  if (absl::Status status = address_of(definition_, &address); !status.ok()) return status;
  tensorflow::SessionOptions options;
  options.config = definition_.default_session_config();
  if (absl::Status status = add_devices(options); !status.ok()) return status;
  if (absl::Status status = set_up_worker(options); !status.ok()) return status;
  set_up_master();
  service_ = std::make_unique<TaskService>(*worker_, *master_);
  int port = 0;
  try {
    port = transport_->listen(address, *service_);
  } catch (const std::exception& error) {
    return tensorflow::errors::Unavailable(error.what());
  }
  target_ = absl::StrCat(protocol, "://", address.substr(0, address.rfind(':')), ":", port);

  static std::atomic<int> n_servers{0};
  local_key_ = absl::StrCat(target_, "#", n_servers++);
  tensorflow::LocalMaster::Register(local_key_, master_.get(), options.config.operation_timeout_in_ms());
  const absl::MutexLock lock(&local_mutex);
  local_keys()[target_] = local_key_;
  return absl::OkStatus();
}

absl::Status TaskServer::add_devices(const tensorflow::SessionOptions& options) {
  std::vector<std::unique_ptr<Device>> devices;
  const std::string task = task_name(definition_.job_name(), definition_.task_index());
  absl::Status status = tensorflow::DeviceFactory::AddDevices(options, task, &devices);
  if (status.ok()) devices_ = std::make_unique<tensorflow::StaticDeviceMgr>(std::move(devices));
  return status;
}

absl::Status TaskServer::set_up_worker(const tensorflow::SessionOptions& options) {
  worker_env_.env = options.env;
  worker_env_.device_mgr = devices_.get();
  worker_env_.compute_pool = tensorflow::ComputePool(options);
  worker_ = std::make_unique<TaskWorker>(&worker_env_);
  rendezvous_ = std::make_unique<tensorflow::RpcRendezvousMgr>(&worker_env_);
  worker_env_.rendezvous_mgr = rendezvous_.get();
  tensorflow::WorkerCacheInterface* cache = nullptr;
  if (absl::Status status = new_worker_cache(definition_.cluster(), &cache); !status.ok()) return status;
  worker_env_.collective_executor_mgr = tensorflow::CreateProdRpcCollectiveExecutorMgr(
      options.config, devices_.get(), tensorflow::MaybeCreateNcclCommunicator(options.config), cache,
      task_name(definition_.job_name(), definition_.task_index()));
  sessions_ = std::make_unique<tensorflow::SessionMgr>(
      &worker_env_, tensorflow::SessionMgr::WorkerNameFromServerDef(definition_),
      std::unique_ptr<tensorflow::WorkerCacheInterface>(cache),
      [this](const tensorflow::ServerDef& definition, tensorflow::WorkerCacheInterface** of_session) {
        return new_worker_cache(definition.cluster(), of_session);
      },
      /*coordination_handler=*/nullptr);
  worker_env_.session_mgr = sessions_.get();
  master_env_.worker_cache = cache;
  return absl::OkStatus();
}

void TaskServer::set_up_master() {
  master_env_.env = worker_env_.env;
  master_env_.ops = tensorflow::OpRegistry::Global();
  master_env_.local_devices = devices_->ListDevices();
  master_env_.collective_executor_mgr = worker_env_.collective_executor_mgr.get();
  master_env_.master_session_factory = new_master_session;
  master_env_.worker_cache_factory = [this](const tensorflow::WorkerCacheFactoryOptions& options,
                                            tensorflow::WorkerCacheInterface** cache) {
    if (options.job_name.empty()) {
      return tensorflow::errors::InvalidArgument(
          "the cluster of the session does not name the task of its target");
    }
    return new_worker_cache(options.cluster_def, cache);
  };
  master_ = std::make_unique<tensorflow::Master>(&master_env_, /*session_gc_seconds=*/0.0);
}

absl::Status TaskServer::new_worker_cache(const tensorflow::ClusterDef& cluster,
                                          tensorflow::WorkerCacheInterface** created) try {
  *created = new WorkerCache(cluster, task_name(definition_.job_name(), definition_.task_index()), *worker_,
                             *transport_);
  return absl::OkStatus();
} catch (const std::exception& error) {  // a connection that cannot get a thread
  return tensorflow::errors::ResourceExhausted(error.what());
}

TaskServer::~TaskServer() {
  Stop().IgnoreError();
  Join().IgnoreError();
  worker_env_.collective_executor_mgr.reset();  // it uses the cache of workers, which the sessions own
}

absl::Status TaskServer::Stop() {
  {
    const absl::MutexLock lock(&local_mutex);
    if (const auto at = local_keys().find(target_); at != local_keys().end() && at->second == local_key_) {
      local_keys().erase(at);
    }
  }
  transport_->stop();  // it tells the calls that are being served that they are cancelled
  if (rendezvous_ != nullptr) rendezvous_->CleanupAll();
  if (auto* const collectives = worker_env_.collective_executor_mgr.get(); collectives != nullptr) {
    collectives->GetParamResolver()->StartAbort(absl::CancelledError("this task has stopped"));
    collectives->CleanupAll();
  }
  if (service_ != nullptr) service_->wait();
  const absl::MutexLock lock(&mutex_);
  stopped_ = true;
  return absl::OkStatus();
}

absl::Status TaskServer::Join() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&stopped_));
  return absl::OkStatus();
}

absl::Status TaskServer::UpdateServerDef(const tensorflow::ServerDef&) {
  return tensorflow::errors::Unimplemented("a cluster that changes needs the protocol grpc");
}

absl::Status TaskServer::AddMasterEagerContextToEagerService(uint64_t, tensorflow::EagerContext*) {
  return tensorflow::errors::Unimplemented("eager execution on other tasks needs the protocol grpc");
}

absl::Status TaskServer::SetCoordinationServiceAgentInstance(tsl::CoordinationServiceAgent*) {
  return tensorflow::errors::Unimplemented("TensorFlow's coordination service needs the protocol grpc");
}

}  // namespace tmflow::runtime
