// A processor family without transactional memory that we know.
#include "tmflow/probe/tm_probe.hpp"

namespace tmflow {

TmProbe probe_tm(int) { return {}; }

}  // namespace tmflow
