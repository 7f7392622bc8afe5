// Programs made of plain functions, for the tests of the explorer itself.
#pragma once

#include <memory>
#include <vector>

#include "explorer.hpp"

namespace tmflow::explore {

// A program whose state is created again for each execution.
template <class State>
Program over(std::vector<void (*)(State&)> threads, void (*after)(State&) = nullptr) {
  const auto state = std::make_shared<State>();
  Program program;
  for (auto* const thread : threads) program.threads.push_back([=] { thread(*state); });
  if (after != nullptr) program.after = [=] { after(*state); };
  return program;
}

}  // namespace tmflow::explore
