// A session whose graphs run in a cluster, through the master of one of its tasks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tensorflow/core/distributed_runtime/master_interface.h"
#include "tensorflow/core/public/session.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class ClusterSession final : public tensorflow::Session {
 public:
  // `transport` carries the calls to a master of another process; null with one of this process.
  ClusterSession(const tensorflow::SessionOptions& options, std::unique_ptr<Transport> transport,
                 std::unique_ptr<tensorflow::MasterInterface> master)
      : options_(options), transport_(std::move(transport)), master_(std::move(master)) {}

  absl::Status Create(const tensorflow::GraphDef& graph) override;
  absl::Status Extend(const tensorflow::GraphDef& graph) override;
  absl::Status Run(const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
                   const std::vector<std::string>& outputs, const std::vector<std::string>& targets,
                   std::vector<tensorflow::Tensor>* values) override;
  absl::Status Run(const tensorflow::RunOptions& run_options,
                   const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
                   const std::vector<std::string>& outputs, const std::vector<std::string>& targets,
                   std::vector<tensorflow::Tensor>* values, tensorflow::RunMetadata* metadata) override;
  absl::Status PRunSetup(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                         const std::vector<std::string>& targets, std::string* handle) override;
  absl::Status PRun(const std::string& handle,
                    const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
                    const std::vector<std::string>& outputs,
                    std::vector<tensorflow::Tensor>* values) override;
  absl::Status MakeCallable(const tensorflow::CallableOptions& options, CallableHandle* callable) override;
  absl::Status RunCallable(CallableHandle callable, const std::vector<tensorflow::Tensor>& feeds,
                           std::vector<tensorflow::Tensor>* fetches,
                           tensorflow::RunMetadata* metadata) override;
  absl::Status ReleaseCallable(CallableHandle callable) override;
  absl::Status ListDevices(std::vector<tensorflow::DeviceAttributes>* devices) override;
  absl::Status Close() override;

 private:
  absl::Status run(tensorflow::RunOptions run_options,
                   const std::vector<std::pair<std::string, tensorflow::Tensor>>& inputs,
                   const std::vector<std::string>& outputs, const std::vector<std::string>& targets,
                   const std::string& partial_run, std::vector<tensorflow::Tensor>* values,
                   tensorflow::RunMetadata* metadata);

  // The handle of the session at the master; an error before `Create` and after `Close`.
  absl::Status get_handle(std::string* handle);

  const tensorflow::SessionOptions options_;
  const std::unique_ptr<Transport> transport_;  // outlives the master, which calls through it
  const std::unique_ptr<tensorflow::MasterInterface> master_;

  absl::Mutex mutex_;
  std::string handle_;               // guarded by mutex_; empty while there is no session at the master
  std::int64_t graph_version_ = -1;  // guarded by mutex_
};

}  // namespace tmflow::runtime
