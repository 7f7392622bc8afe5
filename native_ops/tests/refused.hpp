// Parameters that belong to no strategy as they are given.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/registry.hpp"

namespace tmflow {

// Why these parameters are refused; "" where they are taken.
inline std::string refusal(const std::string& strategy, const std::vector<std::string>& given) {
  try {
    parameters_of(strategy, given);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace tmflow
