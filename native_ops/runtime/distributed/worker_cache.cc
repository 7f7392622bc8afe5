#include "worker_cache.hpp"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "remote_worker.hpp"
#include "tensorflow/core/lib/core/errors.h"

namespace tmflow::runtime {

std::string task_name(const std::string& job, int index) {
  return absl::StrCat("/job:", job, "/replica:0/task:", index);
}

WorkerCache::WorkerCache(const tensorflow::ClusterDef& cluster, std::string local_task,
                         tensorflow::WorkerInterface& local, Transport& transport)
    : local_task_(std::move(local_task)), local_(local) {
  for (const tensorflow::JobDef& job : cluster.job()) {
    for (const auto& [index, address] : job.tasks()) {
      peers_.emplace(task_name(job.name(), index), transport.connect(address));
    }
  }
}

void WorkerCache::ListWorkers(std::vector<std::string>* workers) const {
  for (const auto& [task, peer] : peers_) workers->push_back(task);
}

void WorkerCache::ListWorkersInJob(const std::string& job, std::vector<std::string>* workers) const {
  for (const auto& [task, peer] : peers_) {
    if (absl::StartsWith(task, absl::StrCat("/job:", job, "/"))) workers->push_back(task);
  }
}

tensorflow::WorkerInterface* WorkerCache::GetOrCreateWorker(const std::string& target) {
  if (target == local_task_) return &local_;
  const auto at = peers_.find(target);
  return at == peers_.end() ? nullptr : new RemoteWorker(at->second);
}

void WorkerCache::ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) {
  if (target != local_task_) WorkerCacheInterface::ReleaseWorker(target, worker);
}

absl::Status WorkerCache::GetEagerClientCache(std::unique_ptr<tensorflow::eager::EagerClientCache>*) {
  return tensorflow::errors::Unimplemented(
      "eager execution on other tasks needs the protocol grpc; sessions are possible");
}

absl::Status WorkerCache::GetCoordinationClientCache(std::unique_ptr<tensorflow::CoordinationClientCache>*) {
  return tensorflow::errors::Unimplemented("TensorFlow's coordination service needs the protocol grpc");
}

}  // namespace tmflow::runtime
