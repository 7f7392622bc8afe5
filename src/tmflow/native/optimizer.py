"""One step of gradient descent on a loss of the user's own, under a strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tmflow.base.errors import BadInput
from tmflow.native import fused, ops, registry
from tmflow.spec.strategies import Value


def minimise(
    loss: Any,
    variables: Sequence[Any],
    learning_rate: float,
    *,
    strategy: str,
    tracker: ops.Tracker,
    worker: Any,
    read: Sequence[Any] | None = None,
    parameters: Mapping[str, Value] = MappingProxyType({}),
) -> Any:
    """The operation that updates all variables by the gradient of `loss`, each under a strategy object of its own.

    variables: `tf.compat.v1.Variable`s, numbered in the tracker in this order; read: what the step has read of them,
    where it reads them explicitly; the other arguments are those of `ops.apply_gradient_descent`. With kernel "fused"
    in the parameters every update that can be fused is, `tracker.fused` names them, and all wait for all gradients.

    A strategy that keeps the variables elsewhere (`leashed`) needs `read`, from `ops.read` with `consistent`. Under any
    other one that is good too: without it a variable may be updated while the step still reads it.

    Raises as `ops.apply_gradient_descent` does, and BadInput for a variable that the loss does not depend on, for a
    model in which there is nothing to fuse, and for a variable that is read as it is where its updates are elsewhere.
    """
    import tensorflow as tf

    if registry.require(strategy).keeps_elsewhere:
        _require_not_read_as_they_are(strategy, variables, variables if read is None else read)
    gradients = tf.gradients(loss, list(variables if read is None else read))
    for variable, gradient in zip(variables, gradients, strict=True):
        if gradient is None:
            raise BadInput(f"variable {variable.op.name} has no gradient: the loss does not depend on it.")
    return tf.group(
        *apply_all(
            variables,
            gradients,
            learning_rate,
            strategy=strategy,
            tracker=tracker,
            worker=worker,
            parameters=parameters,
        )
    )


def _require_not_read_as_they_are(strategy: str, variables: Sequence[Any], read: Sequence[Any]) -> None:
    for variable, value in zip(variables, read, strict=True):
        if _is_memory(value):
            raise BadInput(
                f"variable {variable.op.name} is read as it is, and strategy '{strategy}' keeps it elsewhere: "
                "read it by ops.read with consistent=True, and give minimise what was read."
            )


def _is_memory(value: Any) -> bool:
    """Whether a value is a variable itself, TensorFlow's own reading of one, or a view."""
    operation = value.op
    while operation.type == "Identity":
        operation = operation.inputs[0].op
    return operation.type in ("VariableV2", "Variable", "VarHandleOp", "ReadVariableOp", "TmflowResourceView")


def apply_all(
    variables: Sequence[Any],
    gradients: Sequence[Any],
    learning_rate: float,
    *,
    strategy: str,
    tracker: ops.Tracker,
    worker: Any,
    parameters: Mapping[str, Value],
) -> list[Any]:
    """The updates of all variables of a step, by gradients that `tf.gradients` made; see `minimise`."""
    import tensorflow as tf

    waits_for: list[Any] = []
    if fused.is_wanted(parameters):
        fused.require_any([variable.op.name for variable in variables], gradients)
        waits_for = fused.all_of(gradients)
    with tf.control_dependencies(waits_for):
        return [
            ops.apply_gradient_descent(
                variable,
                learning_rate,
                gradient,
                strategy=strategy,
                tracker=tracker,
                worker=worker,
                index=index,
                parameters=parameters,
            )
            for index, (variable, gradient) in enumerate(zip(variables, gradients, strict=True))
        ]
