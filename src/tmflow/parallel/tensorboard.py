"""The counters of an optimizer in TensorBoard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.optimizers.strategy_optimizer import StrategyOptimizer

TAGS = {
    "updates": "updates of variables",
    "attempts": "attempts of transactions",
    "commits": "commits",
    "fallbacks": "updates under a lock instead of a transaction",
    "lock_waited_s": "seconds of waiting for locks",
    "lock_held_s": "seconds of holding locks",
}
"""By the name of a counter, the tag of its scalar."""


class CounterBoard(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no type hints
    """A callback that writes the counters of the optimizer after each epoch, as scalars by epoch.

    The values are sums over the variables since the optimizer was built, or its counters were reset. Aborts have a
    scalar for each family of causes. With measures="full" there are also the lost updates of elements, as a share, and
    the times of locks. Use it with `Workers.fit` or `model.fit`.
    """

    def __init__(self, log_dir: str | Path) -> None:
        """`log_dir`: the folder that TensorBoard reads; it is created."""
        super().__init__()
        self._log_dir, self._writer = str(log_dir), None  # type: str, Any

    def on_train_begin(self, logs: Any = None) -> None:
        """Open the log. Raises BadInput for an optimizer that has no such counters."""
        del logs
        if not isinstance(self.model.optimizer, StrategyOptimizer):
            kind = type(self.model.optimizer).__name__
            raise BadInput(f"the optimizer is {kind}, which has no counters: use one of tmflow.optimizers.")
        if self._writer is None:
            with (
                tf.Graph().as_default()
            ):  # FileWriter refuses eager mode; tf.summary would need the package tensorboard
                self._writer = tf.compat.v1.summary.FileWriter(self._log_dir)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Write the sums of the counters; between epochs no worker trains."""
        del logs
        stats = self.model.optimizer.counters()
        scalars: dict[str, float] = {}
        for name, tag in TAGS.items():
            values = [row[name] for row in stats.counters if row.get(name) is not None]
            if values:
                scalars[tag] = sum(values)
        for row in stats.aborts:
            tag = f"aborts: {row['family']}"
            scalars[tag] = scalars.get(tag, 0) + row["n"]
        if expected := sum(row["expected"] for row in stats.lost):
            scalars["share of updates lost"] = sum(row["lost"] for row in stats.lost) / expected
        of_summary = tf.compat.v1.Summary
        values = [of_summary.Value(tag=f"tmflow/{tag}", simple_value=value) for tag, value in scalars.items()]
        self._writer.add_summary(of_summary(value=values), epoch)
        self._writer.flush()

    def on_train_end(self, logs: Any = None) -> None:
        """Close the log."""
        del logs
        self._writer.close()
        self._writer = None
