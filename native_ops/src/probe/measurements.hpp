// What is measured of this machine beside transactions, one thing a file. Each throws NotMeasured where it
// cannot be.
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
