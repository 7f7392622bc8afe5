"""Fused updates: a dense layer's weights are updated from its input and the gradient of its output.

The gradient of such weights is the product of the two. An update that multiplies them on the way neither writes nor
reads it, and TensorFlow, which computes only what somebody fetches, never multiplies them at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tmflow.base.errors import BadInput
from tmflow.spec.strategies import Value

NOT_EMULATED = (
    "kernel fused does not go with provider emulated: an emulated transaction walks a gradient that is written"
)


class DenseFactors(NamedTuple):
    """The gradient is the transposed `input` [examples, rows] times `output_gradient` [examples, columns]."""

    input: Any
    output_gradient: Any
    after: tuple[Any, ...]  # the operations that the product would have waited for


def is_wanted(parameters: Mapping[str, Value]) -> bool:
    """Whether the parameters of a strategy ask for fused updates."""
    return parameters.get("kernel") == "fused"


def dense_factors(gradient: Any) -> DenseFactors | None:
    """The factors of a gradient that `tf.gradients` made, if they are a dense layer's; None for any other.

    A dense layer is one matrix product of its inputs and a variable, such as `tf.matmul(inputs, weights)` or Keras's
    Dense on a matrix, whether or not the weights are transposed. A variable that is used twice, or that a regulariser
    uses too, has a sum for its gradient, and a cast, a convolution or a transposed input makes another one: none of
    them is the product of two matrices of examples as they are, and so none can be fused.
    """
    import tensorflow as tf

    if not isinstance(gradient, tf.Tensor):  # None, or the rows of an embedding
        return None
    after: list[Any] = []
    while gradient.op.type == "Identity":
        after += gradient.op.control_inputs
        gradient = gradient.op.inputs[0]
    product = gradient.op
    is_factored = product.type == "MatMul" and product.get_attr("transpose_a") and not product.get_attr("transpose_b")
    if not is_factored or gradient.dtype not in (tf.float32, tf.float64):
        return None
    return DenseFactors(product.inputs[0], product.inputs[1], (*after, *product.control_inputs))


def all_of(gradients: Sequence[Any]) -> list[Any]:
    """What the updates of a step read: of each gradient its factors, or itself.

    A fused update must wait for all of them. The gradient of an earlier layer reads the weights too, and a fused
    update, which has no product to wait for, would often overtake it and change the weights under it.
    """
    read: list[Any] = []
    for gradient in gradients:
        factors = dense_factors(gradient)
        read += [gradient] if factors is None else [factors.input, factors.output_gradient]
    return read


def require_any(names: Sequence[str], gradients: Sequence[Any]) -> list[str]:
    """The names of the variables whose updates can be fused. Raises BadInput if there is none."""
    fused = [name for name, gradient in zip(names, gradients, strict=True) if dense_factors(gradient) is not None]
    if not fused:
        raise BadInput(
            f"kernel fused has nothing to fuse: no gradient of {', '.join(names)} is a dense layer's, one product of "
            "its input and the gradient of its output."
        )
    return fused
