#include "task_service.hpp"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tensor_message.hpp"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace tmflow::runtime {

using tensorflow::CallOptions;
using tensorflow::Env;
using tensorflow::Master;
using tensorflow::StatusCallback;
using tensorflow::Worker;

// A call that is being served. It is kept by the callback that ends the work.
template <class Request, class Response>
struct TaskService::Exchange {
  Exchange(TaskService& service, std::shared_ptr<Served> served) : of(service), call(std::move(served)) {
    const absl::MutexLock lock(&of.mutex_);
    ++of.n_active_;
  }

  ~Exchange() {
    const absl::MutexLock lock(&of.mutex_);
    --of.n_active_;
  }

  TaskService& of;
  std::shared_ptr<Served> call;
  CallOptions options;
  Request request;
  Response response;
};

template <class Request, class Response, class Start>
void TaskService::begin(std::shared_ptr<Served> call, Start start) {
  auto exchange = std::make_shared<Exchange<Request, Response>>(*this, std::move(call));
  Served& served = *exchange->call;
  if (absl::Status status = parse(served.request(), static_cast<Method>(served.method()), exchange->request);
      !status.ok()) {
    served.answer(to_outcome(status), {});
    return;
  }
  served.on_cancel([weak = std::weak_ptr(exchange)] {
    if (auto strong = weak.lock()) strong->options.StartCancel();
  });
  start(*exchange, [exchange](const absl::Status& status) {
    Message message;
    absl::Status outcome = status;
    if (outcome.ok() && !exchange->response.SerializeToString(&message.header)) {
      outcome = too_large(static_cast<Method>(exchange->call->method()));
      message.header.clear();
    }
    exchange->call->answer(to_outcome(outcome), std::move(message));
  });
}

template <class Request, class Response>
void TaskService::answer(std::shared_ptr<Served> call,
                         void (Worker::*method)(const Request*, Response*, StatusCallback)) {
  begin<Request, Response>(std::move(call), [this, method](auto& exchange, StatusDone done) {
    Env::Default()->SchedClosure([this, method, &exchange, done = std::move(done)] {
      (worker_.*method)(&exchange.request, &exchange.response, done);
    });
  });
}

template <class Request, class Response>
void TaskService::answer(std::shared_ptr<Served> call,
                         void (Worker::*method)(CallOptions*, const Request*, Response*, StatusCallback)) {
  begin<Request, Response>(std::move(call), [this, method](auto& exchange, StatusDone done) {
    Env::Default()->SchedClosure([this, method, &exchange, done = std::move(done)] {
      (worker_.*method)(&exchange.options, &exchange.request, &exchange.response, done);
    });
  });
}

template <class Request, class Response>
void TaskService::answer(std::shared_ptr<Served> call,
                         void (Master::*method)(const Request*, Response*, Master::MyClosure)) {
  begin<Request, Response>(std::move(call), [this, method](auto& exchange, StatusDone done) {
    (master_.*method)(&exchange.request, &exchange.response, std::move(done));
  });
}

void TaskService::answer_status(std::shared_ptr<Served> call) {
  begin<tensorflow::GetStatusRequest, tensorflow::GetStatusResponse>(
      std::move(call), [this](auto& exchange, const StatusDone& done) {
        worker_.GetStatusAsync(&exchange.options, &exchange.request, &exchange.response, /*fail_fast=*/true,
                               done);
      });
}

// Not an exchange, for which `wait` would wait: TensorFlow forgets the receivers of steps that this task
// never runs.
void TaskService::answer_tensor(std::shared_ptr<Served> call) {
  tensorflow::RecvTensorRequest request;
  if (absl::Status status = parse(call->request(), Method::kRecvTensor, request); !status.ok()) {
    call->answer(to_outcome(status), {});
    return;
  }
  worker_.receive_async(
      request, [call](const absl::Status& status, const tensorflow::Tensor& tensor, bool is_dead) {
        call->answer(to_outcome(status), status.ok() ? to_message(tensor, is_dead) : Message{});
      });
}

// Begins the step, whose nodes run in other threads, so it needs no thread of its own.
void TaskService::run_graph(std::shared_ptr<Served> call) {
  begin<tensorflow::RunGraphRequest, tensorflow::RunGraphResponse>(
      std::move(call), [this](auto& exchange, StatusDone done) {
        static_cast<tensorflow::WorkerInterface&>(worker_).RunGraphAsync(&exchange.options, &exchange.request,
                                                                         &exchange.response, std::move(done));
      });
}

void TaskService::run_step(std::shared_ptr<Served> call) {
  begin<tensorflow::RunStepRequest, tensorflow::RunStepResponse>(
      std::move(call), [this](auto& exchange, const StatusDone& done) {
        auto request = std::make_shared<tensorflow::ProtoRunStepRequest>(&exchange.request);
        auto response = std::make_shared<tensorflow::NonOwnedProtoRunStepResponse>(&exchange.response);
        master_.RunStep(&exchange.options, request.get(), response.get(),
                        [request, response, done](const absl::Status& status) { done(status); });
      });
}

void TaskService::run_callable(std::shared_ptr<Served> call) {
  begin<tensorflow::RunCallableRequest, tensorflow::RunCallableResponse>(
      std::move(call), [this](auto& exchange, StatusDone done) {
        master_.RunCallable(&exchange.options, &exchange.request, &exchange.response, std::move(done));
      });
}

void TaskService::serve(std::shared_ptr<Served> call) {
  switch (static_cast<Method>(call->method())) {
    case Method::kGetStatus:
      return answer_status(std::move(call));
    case Method::kCreateWorkerSession:
      return answer(std::move(call), &Worker::CreateWorkerSessionAsync);
    case Method::kDeleteWorkerSession:
      return answer(std::move(call), &Worker::DeleteWorkerSessionAsync);
    case Method::kRegisterGraph:
      return answer(std::move(call), &Worker::RegisterGraphAsync);
    case Method::kDeregisterGraph:
      return answer(std::move(call), &Worker::DeregisterGraphAsync);
    case Method::kRunGraph:
      return run_graph(std::move(call));
    case Method::kCleanupGraph:
      return answer(std::move(call), &Worker::CleanupGraphAsync);
    case Method::kCleanupAll:
      return answer(std::move(call), &Worker::CleanupAllAsync);
    case Method::kRecvTensor:
      return answer_tensor(std::move(call));
    case Method::kLogging:
      return answer(std::move(call), &Worker::LoggingAsync);
    case Method::kTracing:
      return answer(std::move(call), &Worker::TracingAsync);
    case Method::kRecvBuf:
      return answer(std::move(call), &Worker::RecvBufAsync);
    case Method::kCompleteGroup:
      return answer(std::move(call), &Worker::CompleteGroupAsync);
    case Method::kCompleteInstance:
      return answer(std::move(call), &Worker::CompleteInstanceAsync);
    case Method::kGetStepSequence:
      return answer(std::move(call), &Worker::GetStepSequenceAsync);
    case Method::kCreateSession:
      return answer(std::move(call), &Master::CreateSession);
    case Method::kExtendSession:
      return answer(std::move(call), &Master::ExtendSession);
    case Method::kPartialRunSetup:
      return answer(std::move(call), &Master::PartialRunSetup);
    case Method::kRunStep:
      return run_step(std::move(call));
    case Method::kCloseSession:
      return answer(std::move(call), &Master::CloseSession);
    case Method::kListDevices:
      return answer(std::move(call), &Master::ListDevices);
    case Method::kReset:
      return answer(std::move(call), &Master::Reset);
    case Method::kMakeCallable:
      return answer(std::move(call), &Master::MakeCallable);
    case Method::kRunCallable:
      return run_callable(std::move(call));
    case Method::kReleaseCallable:
      return answer(std::move(call), &Master::ReleaseCallable);
  }
  call->answer({kInvalid, absl::StrCat("there is no method ", static_cast<int>(call->method()))}, {});
}

void TaskService::wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(+[](int* n) { return *n == 0; }, &n_active_));
}

}  // namespace tmflow::runtime
