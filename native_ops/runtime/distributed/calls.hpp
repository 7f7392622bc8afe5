// The calls between tasks: which methods there are, and how a request of TensorFlow travels as a call of a
// transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/platform/protobuf.h"
#include "transport/transport.hpp"

namespace tmflow::runtime {

// The methods of TensorFlow's worker service, and those of its master service. Both ends must have the same
// numbers.
enum class Method : std::uint8_t {
  kGetStatus = 1,
  kCreateWorkerSession,
  kDeleteWorkerSession,
  kRegisterGraph,
  kDeregisterGraph,
  kRunGraph,
  kCleanupGraph,
  kCleanupAll,
  kRecvTensor,
  kLogging,
  kTracing,
  kRecvBuf,
  kCompleteGroup,
  kCompleteInstance,
  kGetStepSequence,
  kCreateSession = 32,
  kExtendSession,
  kPartialRunSetup,
  kRunStep,
  kCloseSession,
  kListDevices,
  kReset,
  kMakeCallable,
  kRunCallable,
  kReleaseCallable,
};

using Protobuf = tensorflow::protobuf::MessageLite;
using StatusDone = std::function<void(const absl::Status&)>;

absl::Status to_status(const Outcome& outcome);
Outcome to_outcome(const absl::Status& status);

// Parses what a peer sent: an error names the method, because the bytes say nothing.
absl::Status parse(const std::string& bytes, Method method, Protobuf& message);

// The error of a message that cannot be encoded.
absl::Status too_large(Method method);

// A call whose answer may have a body. `options` may be null, and then nothing can cancel the call.
// `done` gets the header of the answer, and never runs within this function: TensorFlow's caller may not be
// ready for it.
void call(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request,
          tensorflow::CallOptions* options, bool wait, Place place,
          std::function<void(const absl::Status&, const std::string&)> done);

// A call whose answer is the message `response`, which stays valid until `done`.
void call(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request, Protobuf& response,
          tensorflow::CallOptions* options, StatusDone done, bool wait = false);

// The same, and waits for the answer, also for a task that does not listen yet: within the time-out of the
// options.
absl::Status call_and_wait(const std::shared_ptr<Peer>& peer, Method method, const Protobuf& request,
                           Protobuf& response, tensorflow::CallOptions* options);

}  // namespace tmflow::runtime
