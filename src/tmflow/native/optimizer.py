"""One step of an optimiser under a strategy; with kernel fused, dense layers are updated from their factors.

The gradient of a dense layer's weights is the product of its input and the gradient of its output. An update that
multiplies them itself neither writes nor reads the product. TensorFlow computes only what is fetched, so it does not
multiply them at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tmflow.base.errors import BadInput
from tmflow.native.ops import Tracker, apply_gradient_descent, dense_factors
from tmflow.native.registry import ResolvedStrategy
from tmflow.native.slots import Step


def minimise(
    loss: Any,
    variables: Sequence[Any],
    learning_rate: float,
    *,
    strategy: ResolvedStrategy,
    tracker: Tracker,
    worker: Any,
    read: Sequence[Any] | None = None,
    steps: Sequence[Step] | None = None,
) -> Any:
    """The operation that updates all variables by the gradient of `loss`, each under a separate strategy object.

    variables: `tf.compat.v1.Variable`s, numbered in the tracker in this order; read: the values that the step has read,
    if it reads the variables explicitly; steps: of an optimiser with slots (`Slots.begin`), for each variable; the
    other arguments are those of `apply_gradient_descent`. With kernel
    "fused" every update that can be fused is, `tracker.fused` names these variables, and all updates wait for all
    gradients.

    A strategy that keeps the variables elsewhere (`leashed`, `local_steps`) needs `read`, from `read` with
    `consistent`. It is useful under any other strategy too: without it a variable may be updated while the step still
    reads it.

    Raises as `apply_gradient_descent` does, and BadInput for a variable that the loss does not depend on, for a
    model without a dense layer under kernel "fused", and for a plain read of a variable whose updates are elsewhere.
    """
    import tensorflow as tf

    sources = list(variables if read is None else read)
    for variable, source in zip(variables, sources, strict=True):
        if strategy.entry.keeps_elsewhere and _is_plain_read(source):
            raise BadInput(
                f"variable {variable.op.name} is read directly, but strategy '{strategy.name}' keeps it elsewhere: "
                "read it by ops.read with consistent=True, and pass the result to minimise."
            )
    gradients = tf.gradients(loss, sources)
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is None:
            raise BadInput(f"variable {variable.op.name} has no gradient: the loss does not depend on it.")
    return tf.group(
        *apply_all(variables, gradients, learning_rate, strategy=strategy, tracker=tracker, worker=worker, steps=steps)
    )


def _is_plain_read(value: Any) -> bool:
    operation = value.op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    return operation.type in ("VariableV2", "Variable", "VarHandleOp", "ReadVariableOp", "TmflowResourceView")


def apply_all(
    variables: Sequence[Any],
    gradients: Sequence[Any],
    learning_rate: float,
    *,
    strategy: ResolvedStrategy,
    tracker: Tracker,
    worker: Any,
    steps: Sequence[Step] | None = None,
) -> list[Any]:
    """The updates of all variables of a step, by gradients that `tf.gradients` made; see `minimise`."""
    import tensorflow as tf

    waits_for = inputs_of_updates(variables, gradients) if strategy.is_fused else []
    with tf.control_dependencies(waits_for):
        return [
            apply_gradient_descent(
                variable, learning_rate, gradient, strategy=strategy, tracker=tracker, worker=worker, index=index,
                step=None if steps is None else steps[index],
            )
            for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True))
        ]  # fmt: skip


def inputs_of_updates(variables: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
    """What the fused updates of a step read: the factors of each gradient, or the gradient if it has none.

    A fused update must wait for all of them. The gradient of an earlier layer reads the weights too. A fused update has
    no product to wait for, so it would often overtake that gradient and change the weights before they are read.
    Raises BadInput if no gradient has factors.
    """
    factors = [dense_factors(gradient) for gradient in gradients]
    if not any(factors):
        names = ", ".join(variable.op.name for variable in variables)
        raise BadInput(
            f"kernel fused has nothing to fuse: no gradient of {names} is a dense layer's, one product of its input "
            "and the gradient of its output."
        )
    pairs = zip(gradients, factors, strict=True)
    return [value for gradient, dense in pairs for value in (dense[:2] if dense else [gradient])]
