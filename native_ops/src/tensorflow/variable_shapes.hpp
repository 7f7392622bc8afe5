// The shape of a variable that is an input of an op, as far as it is known while the graph is built.
#pragma once

#include "tensorflow/core/framework/shape_inference.h"

namespace tmflow::tf {

inline tensorflow::shape_inference::ShapeHandle reference_shape(
    tensorflow::shape_inference::InferenceContext* c, int variable) {
  return c->input(variable);
}

inline tensorflow::shape_inference::ShapeHandle resource_shape(
    tensorflow::shape_inference::InferenceContext* c, int variable) {
  const auto* handle = c->input_handle_shapes_and_types(variable);
  return handle != nullptr && !handle->empty() ? handle->front().shape : c->UnknownShape();
}

}  // namespace tmflow::tf
