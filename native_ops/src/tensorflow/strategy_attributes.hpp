// The attributes `strategy` and `parameters` of an op, checked while the graph is built.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tmflow/registry.hpp"

namespace tmflow::tf {

// The only place where a wrong parameter can fail while the graph is built.
inline absl::Status check_parameters(tensorflow::shape_inference::InferenceContext* c) {
  std::string strategy;
  std::vector<std::string> parameters;
  TF_RETURN_IF_ERROR(c->GetAttr("strategy", &strategy));
  TF_RETURN_IF_ERROR(c->GetAttr("parameters", &parameters));
  try {
    parameters_of(strategy, parameters);
  } catch (const std::invalid_argument& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return absl::OkStatus();
}

}  // namespace tmflow::tf
