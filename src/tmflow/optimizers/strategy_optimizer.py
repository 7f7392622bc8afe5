"""What the optimizers share: the strategy, the operations of an update, and the counters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.native import automatic, loader
from tmflow.native.ops import Stats, Tracker
from tmflow.native.registry import ResolvedStrategy
from tmflow.spec.factors import Measures

_ANY_WORKER = -1  # each update borrows the counters of a worker
_TYPES = (tf.float32, tf.float64)


class SlotRule(NamedTuple):
    """One step of an optimizer with slots on one variable.

    optimiser: the loop of the native library, with its `hyperparameters` as "name=number"; slots: variables of the
    shape and type of the variable; rate: the factor of the step, a scalar of that type.
    """

    optimiser: str
    hyperparameters: Sequence[str]
    slots: Sequence[Any]
    rate: Any


class StrategyOptimizer:
    """A Keras optimizer whose updates run under a strategy; derive a class from this one and from Keras's.

    Several threads may call `apply` at the same time, eagerly or in a `tf.function`, dense and with the rows of an
    embedding. A step updates each variable separately; the consistency is that of one variable.
    """

    # Keras's, of which this class is derived only together with one of its optimizers.
    built: bool
    learning_rate: Any
    weight_decay: Any
    _iterations: Any
    _get_variable_index: Any
    _use_weight_decay: Any

    def __init__(
        self,
        *args: Any,
        strategy: str = automatic.AUTO,
        consistency: automatic.Consistency | None = None,
        workers: int | None = None,
        measures: Measures = "usual",
        **keywords: Any,
    ) -> None:
        """See the derived class. Raises BadInput for what is wrong, and Unsupported if the strategy cannot run here."""
        _require_no_distribution()
        resolved, places = _resolve(strategy, consistency), _checked_workers(workers)
        super().__init__(*args, **_without_unsupported(keywords))  # Keras allows no attributes before
        self.strategy, self.consistency, self.measures = strategy, consistency, measures
        self.workers, self._resolved = places, resolved
        self._iterations.assign_add = partial(add_atomically, self._iterations)

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots of the variables. Raises BadInput for a model or a variable that cannot be trained so."""
        if self.built:
            return
        variables = list(variables)
        if not variables:
            raise BadInput("the model has no trainable variables.")
        for variable in variables:
            _check_variable(variable)
        super().build(variables)  # type: ignore[misc]
        names = [getattr(variable, "path", variable.name) for variable in variables]
        with tf.init_scope():
            self._counts = Tracker(self.workers, names, self.measures, has_slots=self._has_slots())
        for index in range(len(variables)):
            self._counts.count(index, self._resolved)

    def counters(self) -> Stats:
        """The counts since the optimizer was built or `reset_counters`. Call it while no thread trains.

        A row of counters is that of one variable and one place for a concurrent update, not of one thread. With
        measures "full" there are also the times of locks, and the updates lost. Raises BadInput before the first step.
        """
        return self._built_counts().stats()

    def reset_counters(self) -> None:
        """Discard the counts. Call it while no thread trains. Raises BadInput before the first step."""
        self._built_counts().reset()

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, as Keras saves them."""
        config: dict[str, Any] = super().get_config()  # type: ignore[misc]
        for name in ("use_ema", "ema_momentum", "ema_overwrite_frequency", "gradient_accumulation_steps"):
            config.pop(name, None)
        return config | {
            "strategy": self.strategy,
            "consistency": self.consistency,
            "workers": self.workers,
            "measures": self.measures,
        }

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update one variable, and its slots, under the strategy; Keras calls it for each variable of a step."""
        rate = tf.cast(learning_rate, variable.dtype)
        gradient = _cast(gradient, variable.dtype)
        rule = self._slot_rule(variable, rate)
        if rule is None:
            self._descend(variable, gradient, rate)
            return
        gradient = self._scaled(gradient, rate)
        self._apply(
            "optimiser", variable, gradient, rule.rate, [slot.value.handle for slot in rule.slots],
            optimiser=rule.optimiser, hyperparameters=list(rule.hyperparameters),
        )  # fmt: skip

    def _slot_rule(self, variable: Any, rate: Any) -> SlotRule | None:
        """The step of the optimizer on a variable with slots; None for plain gradient descent."""
        raise NotImplementedError

    def _has_slots(self) -> bool:
        raise NotImplementedError

    def _scaled(self, gradient: Any, rate: Any) -> Any:
        """The gradient that the loop of the rule takes, if the learning rate belongs into it."""
        del rate
        return gradient

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        """The decay is an update under the strategy, too: an assignment would lose concurrent updates."""
        if self.weight_decay is None:
            return
        for variable in variables:
            if self._use_weight_decay(variable):
                value = getattr(variable, "value", variable)
                decay = tf.cast(self.weight_decay, value.dtype)
                self._descend(value, value * decay, tf.cast(self.learning_rate, value.dtype))

    def _descend(self, variable: Any, gradient: Any, rate: Any) -> None:
        self._apply("gradient_descent", variable, gradient, rate)

    def _apply(
        self, rule: str, variable: Any, gradient: Any, rate: Any, slots: Sequence[Any] | None = None, **attributes: Any
    ) -> None:
        by_rows = isinstance(gradient, tf.IndexedSlices)
        operands = [tf.cast(gradient.indices, tf.int64), gradient.values] if by_rows else [gradient]
        apply = getattr(loader.ops(), f"tmflow_resource_apply_{'rows_' if by_rows else ''}{rule}")
        apply(
            variable.handle, rate, *operands, self._counts.handle, _ANY_WORKER, *([] if slots is None else [slots]),
            strategy=self._resolved.name, parameters=list(self._resolved.native_arguments),
            variable=self._get_variable_index(variable), **attributes,
        )  # fmt: skip

    def _built_counts(self) -> Tracker:
        if not self.built:
            raise BadInput("the optimizer has not made a step yet, so it has counted nothing.")
        return self._counts


def add_atomically(variable: Any, amount: Any) -> Any:
    """Add to a Keras variable in one operation. Its own `assign_add` reads and assigns, so it may lose an addition."""
    value = variable._value
    return value.assign_add(tf.cast(amount, value.dtype))


def _resolve(strategy: str, consistency: automatic.Consistency | None) -> ResolvedStrategy:
    resolved = automatic.resolve(strategy, consistency)
    if resolved.entry.keeps_elsewhere:
        raise BadInput(
            f"strategy '{resolved.name}' keeps the variables elsewhere than in their memory, where Keras reads them."
        )
    return resolved


def _checked_workers(workers: int | None) -> int:
    """The number of updates that can run at the same time without waiting for a place to count."""
    if workers is None:
        return 2 * (os.cpu_count() or 1)
    if not isinstance(workers, int) or workers < 1:
        raise BadInput(f"workers is {workers!r}, but should be a whole number from 1 on.")
    return workers


def _require_no_distribution() -> None:
    if tf.distribute.has_strategy():
        raise BadInput(
            "a tf.distribute strategy is in scope, but tmflow's optimizers are for threads of one process: create the "
            "model and the optimizer outside of it."
        )


def _without_unsupported(keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords for Keras. Raises BadInput for those with which concurrent steps would overwrite each other."""
    for name in ("use_ema", "gradient_accumulation_steps"):
        if keywords.pop(name, None):
            raise BadInput(
                f"{name} is not supported: Keras assigns its variables, and assignments of concurrent steps would "
                "overwrite each other."
            )
    for name in ("ema_momentum", "ema_overwrite_frequency"):
        keywords.pop(name, None)
    return keywords


def _check_variable(variable: Any) -> None:
    name = getattr(variable, "path", variable.name)
    dtype = tf.as_dtype(variable.dtype)
    if dtype not in _TYPES:
        raise BadInput(
            f"variable {name} is {dtype.name}; tmflow updates float32 and float64. With Keras's policy mixed_bfloat16 "
            "the variables stay float32."
        )
    if getattr(variable, "constraint", None) is not None:
        raise BadInput(
            f"variable {name} has a constraint, which Keras assigns after each step: it would overwrite concurrent "
            "updates."
        )


def _cast(gradient: Any, dtype: Any) -> Any:
    """The gradient in the type of the variable; rows stay rows."""
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape)
    return tf.cast(gradient, dtype)
