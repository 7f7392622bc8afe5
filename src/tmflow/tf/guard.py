"""A guard of one variable: every update of it goes through one strategy, whichever thread makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.native import automatic
from tmflow.native.ops import Stats
from tmflow.native.updates import Updates

if TYPE_CHECKING:
    from tmflow.spec.factors import Measures


class Guard:
    """The updates of a `tf.Variable` under a strategy. Any threads may call `apply` and `read` at the same time.

    The variable keeps TensorFlow's value semantics: a value that somebody has read stays what it was, because an update
    that finds it in use copies the variable first. All updates must go through one guard; `assign` of the variable
    loses updates that run meanwhile.
    """

    def __init__(
        self,
        variable: Any,
        *,
        strategy: str = automatic.AUTO,
        consistency: automatic.Consistency | None = None,
        workers: int | None = None,
        measures: Measures = "usual",
    ) -> None:
        """Guard a float32 or float64 `tf.Variable`, or one of Keras.

        strategy: "auto" or a variant such as "striped:block=0". consistency: what concurrent updates must guarantee,
        one of none, element, block and tensor; with "auto" it selects the strategy, and is "block" if it is not given.
        workers: how many calls can run at once without waiting; twice the number of processors if it is not given.
        measures: "full" also counts lost updates and times locks, which is slower; then all updates change the whole
        variable, or all change rows, and a variable of rows is not read before its first update.

        Raises BadInput for what is wrong, and Unsupported for a strategy that cannot run here.
        """
        value = getattr(variable, "_value", variable)
        if not isinstance(value, tf.Variable) or not hasattr(value, "handle"):
            raise BadInput(f"a guard needs a tf.Variable, not a {type(variable).__name__}.")
        if value.dtype not in (tf.float32, tf.float64):
            raise BadInput(f"variable {value.name} is {value.dtype.name}; a guard updates float32 and float64.")
        self.variable = value
        resolved, places = automatic.resolve(strategy, consistency), automatic.check_workers(workers)
        self._updates = Updates([value.name], resolved, places, measures)

    def apply(self, gradient: Any, learning_rate: Any) -> None:
        """variable -= learning_rate * gradient, in place.

        gradient: a tensor of the variable's shape, or IndexedSlices, with which only its rows are changed; it is cast
        to the variable's type. Raises TensorFlow's InvalidArgumentError for any other shape and for a row that does not
        exist, and BadInput for a gradient of None.
        """
        if gradient is None:
            raise BadInput(f"the gradient of {self.variable.name} is None: the loss does not depend on it.")
        dtype = self.variable.dtype
        if isinstance(gradient, tf.IndexedSlices):
            gradient = tf.IndexedSlices(tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)
        else:
            gradient = tf.cast(gradient, dtype)
        self._updates.descend(self.variable, 0, gradient, tf.cast(learning_rate, dtype))

    def read(self, *, consistent: bool = True) -> Any:
        """The variable: a copy through the strategy, with the consistency of its reads; or else TensorFlow's value.

        Raises BadInput for a consistent read under a strategy that has none.
        """
        if not consistent:
            return self.variable.read_value()
        entry = self._updates.strategy.entry
        if entry.snapshot_consistency == "none":
            raise BadInput(f"strategy '{entry.name}' has no consistent read: use consistent=False.")
        return self._updates.read(self.variable, 0)

    def counters(self) -> Stats:
        """The counts since the guard was made. Call it while no thread updates."""
        return self._updates.stats()


guard = Guard  # as it reads best in a loop: `weights = guard(tf.Variable(...))`
