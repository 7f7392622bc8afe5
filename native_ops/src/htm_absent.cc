// The providers of other architectures than the one that this is compiled for.
#include "tmflow/htm/update.hpp"

namespace tmflow::htm {
namespace {

template <class T>
void never(const ElidedUpdate<T>&, const ElidableMutex&, Budget, ThreadStats&) {}

}  // namespace

#if !defined(TMFLOW_HAS_RTM)
constinit const Provider kRtm{"rtm", [] { return std::optional<std::string>("RTM is of x86-64"); },
                              never<float>, never<double>};
#endif
#if !defined(TMFLOW_HAS_POWER)
constinit const Provider kPower{
    "power", [] { return std::optional<std::string>("POWER's transactions are of ppc64le"); }, never<float>,
    never<double>};
#endif

}  // namespace tmflow::htm
