// The emulated processor, as it is built.
#include "tmflow/htm/emulated/processor.hpp"

namespace tmflow::htm::emulated {

template class BasicProcessor<SpinLock>;
template class BasicHardwareThread<SpinLock>;

}  // namespace tmflow::htm::emulated
