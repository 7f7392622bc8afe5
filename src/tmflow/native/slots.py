"""The slots of an optimiser in a TensorFlow graph: arrays beside each variable, which a step changes with it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tmflow.base.errors import BadInput
from tmflow.native import loader

if TYPE_CHECKING:
    from tmflow.native.ops import Tracker


class Step(NamedTuple):
    """What a step of an optimiser with slots needs for one variable.

    slots: variables of its kind, shape and type, which belong to it alone; powers: for Adam, beta1 and beta2 to the
    power of the step's number; rate: the learning rate, for Adam the corrected one. Powers and rate are scalars of the
    variable's type.
    """

    optimiser: str
    slots: Sequence[Any]
    learning_rate: float
    powers: tuple[Any, ...]
    rate: Any


class Slots:
    """The slots of an optimiser for the variables of a graph.

    `initialise` has the operations that set all slots to their values before the first step; after them the steps are
    counted anew.
    """

    def __init__(self, optimiser: str, variables: Sequence[Any], tracker: Tracker) -> None:
        """Create the slots of each `tf.compat.v1.Variable`, whose shape must be known, in the default graph.

        tracker: counts the steps; a reset of its counts does not set back the number of completed steps. Raises
        BadInput for an optimiser without slots.
        """
        import tensorflow as tf

        if optimiser not in (with_slots := [name for name, rule in rules().items() if rule["slots"]]):
            raise BadInput(f"optimiser is {optimiser!r}; those with slots are {', '.join(with_slots)}.")

        tf1 = tf.compat.v1

        self.optimiser = optimiser
        self._variables = list(variables)
        rule = rules()[optimiser]
        self.of = [
            [
                tf1.Variable(
                    tf.fill(variable.shape, tf.constant(rule["initial"], variable.dtype.base_dtype)),
                    trainable=False, use_resource=hasattr(variable, "handle"), name=f"{variable.op.name}_slot{number}",
                )
                for number in range(rule["slots"])
            ]
            for variable in self._variables
        ]  # fmt: skip
        self.initialise = [slot.initializer for slots in self.of for slot in slots]
        if optimiser == "adam":
            # The version before the first step: the tracker's, whenever the variable is initialised.
            self._first = tf1.Variable(tracker.begin_step(), trainable=False, use_resource=True, name="tmflow_first")
            self.initialise.append(self._first.initializer)

    def begin(self, learning_rate: float, version: Any) -> list[Step]:
        """The step of each variable in a step that began at `version`, an int64 scalar of the tracker.

        Adam corrects the learning rate by the number of steps that were complete when this one began; with one worker
        that is TensorFlow's rule.
        """
        import tensorflow as tf

        rates: dict[Any, tuple[tuple[Any, ...], Any]] = {}
        for dtype in {variable.dtype.base_dtype for variable in self._variables}:
            rate = tf.constant(learning_rate, dtype)
            powers: tuple[Any, ...] = ()
            if self.optimiser == "adam":
                beta1, beta2 = (hyperparameters("adam")[name] for name in ("beta1", "beta2"))
                number = tf.cast(version - self._first + 1, dtype)
                powers = (tf.pow(tf.constant(beta1, dtype), number), tf.pow(tf.constant(beta2, dtype), number))
                rate = rate * tf.sqrt(1 - powers[1]) / (1 - powers[0])
            rates[dtype] = powers, rate
        return [
            Step(self.optimiser, slots, learning_rate, *rates[variable.dtype.base_dtype])
            for variable, slots in zip(self._variables, self.of, strict=True)
        ]


@cache
def rules() -> dict[str, Any]:
    """The optimisers of the compiled core by name: the number of their slots and the values before the first step."""
    return {row["name"]: row for row in loader.core().optimisers()}


def hyperparameters(optimiser: str) -> dict[str, float]:
    """All but the learning rate, by the names of TensorFlow's operations."""
    values: dict[str, float] = rules()[optimiser]["hyperparameters"]
    return values
