// What a task serves to others: its worker and its master.
#pragma once

#include <memory>

#include "absl/synchronization/mutex.h"
#include "calls.hpp"
#include "task_worker.hpp"
#include "tensorflow/core/distributed_runtime/master.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

class TaskService final : public Service {
 public:
  TaskService(TaskWorker& worker, tensorflow::Master& master) : worker_(worker), master_(master) {}

  void serve(std::shared_ptr<Served> call) override;

  // Waits until every call that was begun has ended, except those for tensors. No further one may come.
  void wait();

 private:
  template <class Request, class Response>
  struct Exchange;

  // Parses the request, has `start` begin the work, and answers with the response when it is done.
  template <class Request, class Response, class Start>
  void begin(std::shared_ptr<Served> call, Start start);

  // Methods of the worker may block, and the thread that calls `serve` reads from the network: they get
  // another one.
  template <class Request, class Response>
  void answer(std::shared_ptr<Served> call,
              void (tensorflow::Worker::*method)(const Request*, Response*, tensorflow::StatusCallback));
  template <class Request, class Response>
  void answer(std::shared_ptr<Served> call,
              void (tensorflow::Worker::*method)(tensorflow::CallOptions*, const Request*, Response*,
                                                 tensorflow::StatusCallback));

  // Methods of the master do that themselves.
  template <class Request, class Response>
  void answer(std::shared_ptr<Served> call,
              void (tensorflow::Master::*method)(const Request*, Response*, tensorflow::Master::MyClosure));

  void answer_status(std::shared_ptr<Served> call);
  void answer_tensor(std::shared_ptr<Served> call);
  void run_graph(std::shared_ptr<Served> call);
  void run_step(std::shared_ptr<Served> call);
  void run_callable(std::shared_ptr<Served> call);

  TaskWorker& worker_;
  tensorflow::Master& master_;
  absl::Mutex mutex_;
  int n_active_ = 0;  // guarded by mutex_
};

}  // namespace tmflow::runtime
