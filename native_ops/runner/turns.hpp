// The order in which a benchmark measures, the same as in src/tmflow/benchmark/plan.py.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/python_random.hpp"
#include "runner/sha256.hpp"

namespace tmflow::runner {

// The turns of round `number`: the cells in a shuffled order, and within each cell its turns shuffled, so
// that they are close in time. The seed of the generator is the first 32 bits of the SHA-256 of
// "SEED/NUMBER".
template <class Turn>
std::vector<Turn> turns(std::vector<std::vector<Turn>> cells, int seed, int number) {
  const std::string name = std::to_string(seed) + "/" + std::to_string(number);
  PythonRandom order(static_cast<std::uint32_t>(std::stoul(sha256_hex(name).substr(0, 8), nullptr, 16)));
  order.shuffle(cells);
  std::vector<Turn> all;
  for (std::vector<Turn>& cell : cells) {
    order.shuffle(cell);
    all.insert(all.end(), cell.begin(), cell.end());
  }
  return all;
}

}  // namespace tmflow::runner
