// The providers of architectures other than the compiled one.
#include "tmflow/htm/update.hpp"

namespace tmflow::htm {
namespace {

template <class T>
void never(const ElidedUpdate<T>&, const ElidableMutexes&, Budget, ThreadStats&) {}

template <class T>
bool never_whole(const ElidedUpdate<T>&, const TouchedLocks<T>&, Budget, ThreadStats&) {
  return false;
}

}  // namespace

#if !defined(TMFLOW_HAS_RTM)
constinit const Provider kRtm{"rtm",
                              [] { return std::optional<std::string>("RTM exists only on x86-64"); },
                              never<float>,
                              never<double>,
                              never_whole<float>,
                              never_whole<double>};
#endif
#if !defined(TMFLOW_HAS_POWER)
constinit const Provider kPower{
    "power",
    [] { return std::optional<std::string>("POWER's transactions exist only on ppc64le"); },
    never<float>,
    never<double>,
    never_whole<float>,
    never_whole<double>};
#endif

}  // namespace tmflow::htm
