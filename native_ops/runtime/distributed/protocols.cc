#include "protocols.hpp"

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "remote_master.hpp"
#include "server.hpp"
#include "session.hpp"
#include "tensorflow/core/common_runtime/session_factory.h"
#include "tensorflow/core/distributed_runtime/server_lib.h"
#include "tensorflow/core/lib/core/errors.h"
#include "tensorflow/core/protobuf/master.pb.h"
#include "transport/tcp.hpp"

namespace tmflow::runtime {
namespace {

// A transport over TCP. Tasks of another TensorFlow, or without the secret, are refused by the handshake.
struct Tcp {
  static constexpr const char* kProtocol = "df";

  static std::unique_ptr<Transport> make() {
    const char* const secret = std::getenv("TMFLOW_CLUSTER_SECRET");
    return tcp_transport({.greeting = absl::StrCat("TensorFlow ", TMFLOW_TENSORFLOW_VERSION),
                          .secret = secret == nullptr ? "" : secret});
  }
};

// TensorFlow, which calls this, knows no exceptions.
absl::Status unusable(const std::exception& error) {
  return tensorflow::errors::InvalidArgument(error.what());
}

template <class Protocol>
class ServersOf final : public tensorflow::ServerFactory {
 public:
  bool AcceptsOptions(const tensorflow::ServerDef& definition) override {
    return definition.protocol() == Protocol::kProtocol;
  }

  absl::Status NewServer(const tensorflow::ServerDef& definition, const Options&,
                         std::unique_ptr<tensorflow::ServerInterface>* created) override try {
    return TaskServer::create(definition, Protocol::kProtocol, Protocol::make(), created);
  } catch (const std::exception& error) {
    return unusable(error);
  }
};

template <class Protocol>
class SessionsOf final : public tensorflow::SessionFactory {
 public:
  bool AcceptsOptions(const tensorflow::SessionOptions& options) override {
    return absl::StartsWith(options.target, prefix());
  }

  absl::Status NewSession(const tensorflow::SessionOptions& options, tensorflow::Session** created) override
      try {
    std::unique_ptr<tensorflow::MasterInterface> master;
    if (!options.config.rpc_options().use_rpc_for_inprocess_master()) master = local_master(options.target);
    std::unique_ptr<Transport> transport;
    if (master == nullptr) {
      transport = Protocol::make();
      master = std::make_unique<RemoteMaster>(transport->connect(address(options)));
    }
    *created = new ClusterSession(options, std::move(transport), std::move(master));
    return absl::OkStatus();
  } catch (const std::exception& error) {
    return unusable(error);
  }

  absl::Status Reset(const tensorflow::SessionOptions& options,
                     const std::vector<std::string>& containers) override try {
    const std::unique_ptr<Transport> transport = Protocol::make();
    RemoteMaster master(transport->connect(address(options)));
    tensorflow::ResetRequest request;
    for (const std::string& container : containers) request.add_container(container);
    tensorflow::ResetResponse response;
    tensorflow::CallOptions call;
    call.SetTimeout(options.config.operation_timeout_in_ms());
    return master.Reset(&call, &request, &response);
  } catch (const std::exception& error) {
    return unusable(error);
  }

 private:
  static std::string prefix() { return absl::StrCat(Protocol::kProtocol, "://"); }
  static std::string address(const tensorflow::SessionOptions& options) {
    return options.target.substr(prefix().size());
  }
};

template <class Protocol>
void add_protocol() {
  tensorflow::ServerFactory::Register(absl::StrCat("TMFLOW_", Protocol::kProtocol), new ServersOf<Protocol>);
  tensorflow::SessionFactory::Register(absl::StrCat("TMFLOW_", Protocol::kProtocol),
                                       new SessionsOf<Protocol>);
}

}  // namespace

void register_protocols() { add_protocol<Tcp>(); }

}  // namespace tmflow::runtime
