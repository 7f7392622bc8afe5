// For a processor family without known transactional memory.
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {

TmProbe probe_tm(int) { return {}; }

}  // namespace tmflow
