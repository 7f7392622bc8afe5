// The workers of a cluster, by the names of their tasks.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorflow/core/distributed_runtime/worker_cache_partial.h"
#include "tensorflow/core/protobuf/cluster.pb.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class WorkerCache final : public tensorflow::WorkerCachePartial {
 public:
  // `local` is the worker of the task `local_task`; it and the transport outlive the cache.
  WorkerCache(const tensorflow::ClusterDef& cluster, std::string local_task,
              tensorflow::WorkerInterface& local, Transport& transport);

  void ListWorkers(std::vector<std::string>* workers) const override;
  void ListWorkersInJob(const std::string& job, std::vector<std::string>* workers) const override;
  tensorflow::WorkerInterface* GetOrCreateWorker(const std::string& target) override;
  void ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) override;

  // Eager execution on other tasks, which this transport does not have.
  absl::Status GetEagerClientCache(std::unique_ptr<tensorflow::eager::EagerClientCache>* cache) override;
  absl::Status GetCoordinationClientCache(
      std::unique_ptr<tensorflow::CoordinationClientCache>* cache) override;

 private:
  std::string local_task_;
  tensorflow::WorkerInterface& local_;
  std::map<std::string, std::shared_ptr<Peer>>
      peers_;  // by task; connections are opened by their first calls
};

// The name of a task as TensorFlow writes it.
std::string task_name(const std::string& job, int index);

}  // namespace tmflow::runtime
