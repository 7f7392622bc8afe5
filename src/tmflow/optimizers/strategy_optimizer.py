"""What the optimizers share: the strategy, the operations of an update, and the counters."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import keras
import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.native import automatic, loader
from tmflow.native.ops import Stats
from tmflow.native.updates import Updates

if TYPE_CHECKING:
    from tmflow.spec.factors import Measures

_TYPES = (tf.float32, tf.float64)
_BUILDING = threading.RLock()  # held by a thread that may have to build an optimizer


class SlotRule(NamedTuple):
    """One step of an optimizer with slots on one variable.

    hyperparameters: of the loop of the native library, as "name=number"; slots: variables of the shape and type of the
    variable; rate: the factor of the step, a scalar of that type.
    """

    hyperparameters: Sequence[str]
    slots: Sequence[Any]
    rate: Any


class StrategyOptimizer:
    """A Keras optimizer whose updates run under a strategy; derive a class from this one and from Keras's.

    Several threads may call `apply` at the same time, eagerly or in a `tf.function`, dense and with the rows of an
    embedding. A step updates each variable separately; the consistency is that of one variable.
    """

    # Keras's: a class is always derived from this one together with one of Keras's optimizers, to which `super()` leads
    # here. mypy does not know that, hence "type: ignore[misc]".
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
        check_keras()
        resolved, places = automatic.resolve(strategy, consistency), automatic.check_workers(workers)
        super().__init__(*args, **_without_unsupported(keywords))  # Keras allows no attributes before
        self.strategy, self.consistency, self.workers, self.measures = strategy, consistency, workers, measures
        self._resolved, self._places = resolved, places
        self._is_ready = False
        self._iterations.assign_add = partial(add_atomically, self._iterations)

    def build(self, variables: Sequence[Any]) -> None:
        """Create the slots of the variables, and take these over from an earlier optimizer of tmflow.

        No thread may train them with that one meanwhile. Raises BadInput for a model or a variable that cannot be
        trained so.
        """
        with _BUILDING:
            if not self._is_ready:
                self._build(list(variables))
                self._is_ready = True

    def _build(self, variables: list[Any]) -> None:
        if not variables:
            raise BadInput("the model has no trainable variables.")
        for variable in variables:
            _check_variable(variable)
        has_slots = self._optimiser != "sgd"
        self._check_strategy(has_slots=has_slots)
        super().build(variables)  # type: ignore[misc]
        names = [getattr(variable, "path", variable.name) for variable in variables]
        self._updates = Updates(names, self._resolved, self._places, self.measures, has_slots=has_slots)
        with tf.init_scope():
            self._updates.take_over([_tf_variable(variable) for variable in variables])

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """As Keras's `apply`. If the first steps of several threads come together, one builds the optimizer."""
        with nullcontext() if self._is_ready else _BUILDING:
            super().apply(grads, trainable_variables)  # type: ignore[misc]

    def _check_strategy(self, *, has_slots: bool) -> None:
        """Raise BadInput for what the strategy or full measures cannot do with this optimizer."""
        try:
            loader.core().check_slots(self._optimiser, self._resolved.name, list(self._resolved.native_arguments))
        except ValueError as error:
            raise BadInput(f"{error}.") from error
        if self.measures == "full" and has_slots and self.weight_decay is not None:
            raise BadInput('measures="full" does not go with weight_decay and slots: the decay changes no slots.')

    @property
    def _optimiser(self) -> str:
        """The native library's name of the loop; sgd has no slots."""
        raise NotImplementedError

    def counters(self) -> Stats:
        """The counts since the optimizer was built or `reset_counters`. Call it while no thread trains.

        A row of counters is that of one variable and one place for a concurrent update, not of one thread. With
        measures "full" there are also the times of locks, and the updates lost. Raises BadInput before the first step.
        """
        return self._built_updates().stats()

    def reset_counters(self) -> None:
        """Discard the counts. Call it while no thread trains. Raises BadInput before the first step."""
        self._built_updates().reset()

    def release(self) -> None:
        """Let others update the variables under another strategy, until the next step; the counts stay.

        Call it while no thread trains. Raises BadInput before the first step.
        """
        self._built_updates().release()

    def copy(self, variable: Any) -> Any:
        """A copy of the memory of a variable, which may be torn; with measures "full" that is counted.

        variable: one of those that the optimizer was built with. Copies of one whose rows are updated are not counted;
        with full measures it must not be copied before its first update. Raises BadInput before the optimizer is built.
        """
        if not self._is_ready:
            raise BadInput("the optimizer is not built yet, so it knows no variables.")
        return self._updates.read(_tf_variable(variable), self._get_variable_index(variable), consistent=False)

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
        self._updates.step(
            variable, self._get_variable_index(variable), gradient, rule.rate,
            optimiser=self._optimiser, hyperparameters=rule.hyperparameters, slots=[slot.value for slot in rule.slots],
        )  # fmt: skip

    def _slot_rule(self, variable: Any, rate: Any) -> SlotRule | None:
        """The step of the optimizer on a variable with slots; None for plain gradient descent."""
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
                value = _tf_variable(variable)
                decay = tf.cast(self.weight_decay, value.dtype)
                self._descend(value, value * decay, tf.cast(self.learning_rate, value.dtype))

    def _descend(self, variable: Any, gradient: Any, rate: Any) -> None:
        self._updates.descend(variable, self._get_variable_index(variable), gradient, rate)

    def _built_updates(self) -> Updates:
        if not self._is_ready:
            raise BadInput("the optimizer has not made a step yet, so it has counted nothing.")
        return self._updates


def add_atomically(variable: Any, amount: Any) -> Any:
    """Add to a Keras variable in one operation. Its own `assign_add` reads and assigns, so it may lose an addition."""
    value = variable._value
    return value.assign_add(tf.broadcast_to(tf.cast(amount, value.dtype), value.shape))


def _tf_variable(variable: Any) -> Any:
    """The `tf.Variable` of a variable of Keras; of TensorFlow the variable itself."""
    return variable.value if isinstance(variable, keras.Variable) else variable


def check_keras() -> None:
    """Raise BadInput for a state of Keras or TensorFlow in which the optimizers cannot work."""
    if (backend := keras.backend.backend()) != "tensorflow":
        raise BadInput(f"Keras's backend is {backend}; tmflow's optimizers need tensorflow (KERAS_BACKEND).")
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
