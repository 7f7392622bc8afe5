// The attributes `strategy` and `parameters` of an op, checked while the graph is built.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "tensorflow/core/framework/shape_inference.h"
#include "tmflow/core/registry.hpp"

// The attributes in the definition of an op that works on a variable: its type T, the strategy, and the
// variable's number in the tracker.
#define TMFLOW_STRATEGY_ATTRIBUTES                     \
  Attr("T: {float, double}")                           \
      .Attr("strategy: {" + strategy_names("'") + "}") \
      .Attr("parameters: list(string) = []")           \
      .Attr("variable: int >= 0")                      \
      .SetIsStateful()

// For an op on a reference variable: the container of the variable, as in its own operation.
#define TMFLOW_CONTAINER_ATTRIBUTE Attr("container: string = ''")

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
