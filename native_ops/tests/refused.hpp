// Parameters that no strategy accepts in the given form.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tmflow/core/registry.hpp"

namespace tmflow {

// Why these parameters are refused; "" if they are accepted.
inline std::string refusal(const std::string& strategy, const std::vector<std::string>& given) {
  try {
    parameters_of(strategy, given);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

}  // namespace tmflow
