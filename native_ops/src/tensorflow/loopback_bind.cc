// A library to preload into a process (LD_PRELOAD): what would listen on every interface listens on loopback
// only.
//
// TensorFlow's server takes only the port from its address and binds to 0.0.0.0, and no setting of it changes
// that. Its gRPC has no authentication, so on a machine's own cluster nothing outside may reach it.
#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace {

using Bind = int (*)(int, const sockaddr*, socklen_t);

// A copy of the address as another type: a cast of the pointer would break the rules of aliasing.
template <class Address>
Address copy_of(const sockaddr* address) {
  Address copy;
  std::memcpy(&copy, address, sizeof copy);
  return copy;
}

}  // namespace

extern "C" int bind(int socket, const sockaddr* address, socklen_t length) noexcept {
  static const auto next = reinterpret_cast<Bind>(dlsym(RTLD_NEXT, "bind"));
  if (address->sa_family == AF_INET && length >= sizeof(sockaddr_in)) {
    auto any = copy_of<sockaddr_in>(address);
    if (any.sin_addr.s_addr == htonl(INADDR_ANY)) {
      any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      return next(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    }
  }
  if (address->sa_family == AF_INET6 && length >= sizeof(sockaddr_in6)) {
    auto any = copy_of<sockaddr_in6>(address);
    if (IN6_IS_ADDR_UNSPECIFIED(
            &any.sin6_addr)) {  // a socket for both families: the loopback address of the older one
      any.sin6_addr.s6_addr[10] = any.sin6_addr.s6_addr[11] = 0xff;
      any.sin6_addr.s6_addr[12] = 127;
      any.sin6_addr.s6_addr[15] = 1;
      return next(socket, reinterpret_cast<const sockaddr*>(&any), sizeof any);
    }
  }
  return next(socket, address, length);
}
