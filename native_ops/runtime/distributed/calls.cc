#include "calls.hpp"

#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tensorflow/core/platform/env.h"

namespace tmflow::runtime {
namespace {

// The link between a call and the options that may cancel it. The number of the call is known only after the
// call has begun, perhaps after it is cancelled: whoever comes second of `begun` and `cancel` cancels it.
class Cancellation {
 public:
  explicit Cancellation(std::shared_ptr<Peer> peer) : peer_(std::move(peer)) {}

  void begun(std::uint64_t number) {
    number_.store(number);
    if (cancelled_.load()) peer_->cancel(number);
  }

  void cancel() {
    cancelled_.store(true);
    if (const std::uint64_t number = number_.load(); number != 0) peer_->cancel(number);
  }

 private:
  const std::shared_ptr<Peer> peer_;
  std::atomic<std::uint64_t> number_{0};
  std::atomic<bool> cancelled_{false};
};

}  // namespace

absl::Status to_status(const Outcome& outcome) {
  if (outcome.code == 0) return absl::OkStatus();
  return absl::Status(static_cast<absl::StatusCode>(outcome.code), outcome.text);
}

Outcome to_outcome(const absl::Status& status) {
  return {static_cast<int>(status.code()), std::string(status.message())};
}

absl::Status parse(const std::string& bytes, Method method, Protobuf& message) {
  if (message.ParseFromString(bytes)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("a message of method ", static_cast<int>(method),
                                                 " is malformed: ", bytes.size(), " bytes"));
}

absl::Status too_large(Method method) {
  return absl::ResourceExhaustedError(absl::StrCat("a message of method ", static_cast<int>(method),
                                                   " is larger than 2 GiB, the most of its format"));
}

void call(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request,
          tensorflow::CallOptions* options, bool wait, Place place,
          std::function<void(const absl::Status&, const std::string&)> done) {
  std::string bytes;
  if (!request.SerializeToString(&bytes)) {
    tensorflow::Env::Default()->SchedClosure(
        [method, done = std::move(done)] { done(too_large(method), ""); });
    return;
  }
  Peer::Options limits{.wait = wait};
  std::shared_ptr<Cancellation> cancellation;
  if (options != nullptr) {
    limits.timeout = std::chrono::milliseconds(options->GetTimeout());
    cancellation = std::make_shared<Cancellation>(peer);
    // The options call this with their mutex locked, which the end of the call locks too: so from another
    // thread.
    options->SetCancelCallback([cancellation] {
      tensorflow::Env::Default()->SchedClosure([cancellation] { cancellation->cancel(); });
    });
  }
  const auto caller = std::make_shared<std::atomic<std::thread::id>>(std::this_thread::get_id());
  auto ended = [options, caller, done = std::move(done)](Outcome outcome, std::string header) {
    auto finish = [options, done, status = to_status(outcome), header = std::move(header)] {
      if (options != nullptr) options->ClearCancelCallback();
      done(status, header);
    };
    if (caller->load() == std::this_thread::get_id()) {  // a transport that has stopped ends the call at once
      tensorflow::Env::Default()->SchedClosure(std::move(finish));
    } else {
      finish();
    }
  };
  const std::uint64_t number = peer->call(static_cast<std::uint8_t>(method), std::move(bytes),
                                          std::move(place), limits, std::move(ended));
  caller->store(std::thread::id());
  if (cancellation != nullptr) cancellation->begun(number);
}

void call(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request, Protobuf& response,
          tensorflow::CallOptions* options, StatusDone done, bool wait) {
  call(peer, method, request, options, wait, nullptr,
       [method, &response, done = std::move(done)](const absl::Status& status, const std::string& header) {
         done(status.ok() ? parse(header, method, response) : status);
       });
}

absl::Status call_and_wait(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request,
                           Protobuf& response, tensorflow::CallOptions* options) {
  absl::Notification ended;
  absl::Status outcome;
  auto done = [&](const absl::Status& status) {
    outcome = status;
    ended.Notify();
  };
  call(peer, method, request, response, options, done, /*wait=*/true);
  ended.WaitForNotification();
  return outcome;
}

}  // namespace tmflow::runtime
