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
#ifdef TMFLOW_HAS_HPX
#include "hpx/hpx_transport.hpp"
#endif

namespace tmflow::runtime {
namespace {

// Tasks of another TensorFlow, or without the secret, are refused by the handshake.
TcpOptions options_of_task() {
  const char* const secret = std::getenv("TMFLOW_CLUSTER_SECRET");
  return {.greeting = absl::StrCat("TensorFlow ", TMFLOW_TENSORFLOW_VERSION),
          .secret = secret == nullptr ? "" : secret};
}

struct Tcp {
  static constexpr const char* kProtocol = "df";
  static std::unique_ptr<Transport> make() { return tcp_transport(options_of_task()); }
};

#ifdef TMFLOW_HAS_HPX
struct Hpx {
  static constexpr const char* kProtocol = "hpx";
  static std::unique_ptr<Transport> make() { return hpx_transport(options_of_task()); }
};
#endif

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

// A protocol is a struct like those above and its name here.
template <class... Protocols>
struct ListOf {
  static std::string names() {
    std::string names;
    ((names += names.empty() ? "" : ",", names += Protocols::kProtocol), ...);
    return names;
  }

  static void add() { (add<Protocols>(), ...); }

 private:
  template <class Protocol>
  static void add() {
    const std::string name = absl::StrCat("TMFLOW_", Protocol::kProtocol);
    tensorflow::ServerFactory::Register(name, new ServersOf<Protocol>);
    tensorflow::SessionFactory::Register(name, new SessionsOf<Protocol>);
  }
};

#ifdef TMFLOW_HAS_HPX
using Protocols = ListOf<Tcp, Hpx>;
#else
using Protocols = ListOf<Tcp>;
#endif

}  // namespace

std::string protocols() { return Protocols::names(); }

void register_protocols() { Protocols::add(); }

}  // namespace tmflow::runtime
