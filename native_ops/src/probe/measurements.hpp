// The measurements of this machine, transactions excepted, one per file. Each throws NotMeasured if it is
// impossible.
#pragma once

#include <vector>

#include "tmflow/probe/budget.hpp"
#include "tmflow/probe/findings.hpp"
#include "topology.hpp"

namespace tmflow::probe {

Json line_transfers(const std::vector<Cpu>& cpus, const Budget& budget);
Json lock_handoffs(const std::vector<Cpu>& cpus, const Budget& budget);
Json memory_bandwidth(const std::vector<Cpu>& cpus, const Budget& budget);
Json smt_yield(const std::vector<Cpu>& cpus, const Budget& budget);
Json update_times(const std::vector<Cpu>& cpus, const Budget& budget);

}  // namespace tmflow::probe
