"""TensorFlow's own updates, with and without their lock: the stock strategies."""

from __future__ import annotations

from typing import Any

from tmflow.base.errors import BadInput
from tmflow.native.slots import Step, hyperparameters

LOCKING = {"tf_lock": True, "tf_nolock": False}  # tf_lock takes either kind of variable


def update(strategy: str, target: Any, learning_rate: Any, gradient: Any, step: Step | None) -> Any:
    """TensorFlow's update of a variable, whose handle or reference is `target`, by a gradient or rows of one.

    learning_rate: a scalar of the variable's type; step: for an optimiser with slots. Raises BadInput where TensorFlow
    has no update with that locking.
    """
    import tensorflow as tf

    locking, is_resource = LOCKING[strategy], target.dtype == tf.resource
    by_rows = isinstance(gradient, tf.IndexedSlices)
    if is_resource and not locking and not by_rows:
        raise BadInput(
            f"strategy '{strategy}' needs reference variables (variables: ref): TensorFlow's own update of a "
            "resource variable always takes the exclusive lock, so it is no unlocked baseline."
        )
    if step is not None:
        return _with_slots(target, learning_rate, gradient, step, locking=locking)
    if by_rows:
        if is_resource and locking:
            raise BadInput(
                f"strategy '{strategy}' needs reference variables (variables: ref) for an update of rows: TensorFlow's "
                "own update of rows of a resource variable takes no exclusive lock."
            )
        rows = {"indices": gradient.indices, "updates": learning_rate * gradient.values}
        if is_resource:
            return tf.raw_ops.ResourceScatterSub(resource=target, **rows)
        return tf.raw_ops.ScatterSub(ref=target, **rows, use_locking=locking).op
    given = {"var": target, "alpha": learning_rate, "delta": gradient, "use_locking": locking}
    if is_resource:
        return tf.raw_ops.ResourceApplyGradientDescent(**given)
    return tf.raw_ops.ApplyGradientDescent(**given).op


def _with_slots(target: Any, learning_rate: Any, gradient: Any, step: Step, *, locking: bool) -> Any:
    import tensorflow as tf

    is_resource, by_rows = target.dtype == tf.resource, isinstance(gradient, tf.IndexedSlices)
    given: dict[str, Any] = {"var": target, "lr": learning_rate, "use_locking": locking}
    slots = [slot.op.outputs[0] for slot in step.slots]
    if by_rows:
        # TensorFlow's optimisers sum the gradients of a row that occurs several times; its operations do not.
        rows, place = tf.unique(gradient.indices)
        sums = tf.math.unsorted_segment_sum(gradient.values, place, tf.size(rows))
        given |= {"grad": sums, "indices": rows}
    else:
        given |= {"grad": gradient}
    constants = {name: tf.constant(value, gradient.dtype) for name, value in hyperparameters(step.optimiser).items()}
    if step.optimiser == "adam":
        powers = {"beta1_power": step.powers[0], "beta2_power": step.powers[1]}
        given |= {"m": slots[0], "v": slots[1], **powers, **constants}
    else:
        given |= {"accum": slots[0], **constants}
    name = f"{'Resource' if is_resource else ''}{'Sparse' if by_rows else ''}Apply{step.optimiser.capitalize()}"
    operation = getattr(tf.raw_ops, name)(**given)
    return operation if is_resource else operation.op
