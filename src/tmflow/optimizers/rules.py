"""Keras's SGD, Adagrad and Adam with updates under a strategy: the same slots, configuration and formulas.

Common keyword arguments beyond Keras's own: `strategy`, "auto" or a variant such as "striped:block=0"; `consistency`,
what concurrent updates must guarantee ("none", "element", "block" or "tensor"; with "auto" it selects the strategy, and
is "block" if it is not given); `workers`, how many updates can run at once without waiting (twice the number of
processors if not given); `measures`, "full" to count lost updates and time locks, which is slower.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.optimizers.strategy_optimizer import SlotRule, StrategyOptimizer

PACKAGE = "tmflow"  # under which Keras saves the classes

# Keras has no type hints, so mypy sees its classes as Any: hence "type: ignore[misc]" at each class.


@keras.saving.register_keras_serializable(package=PACKAGE)
class SGD(StrategyOptimizer, keras.optimizers.SGD):  # type: ignore[misc]
    """`keras.optimizers.SGD` under a strategy: the same arguments, without Nesterov's momentum.

    With one worker it computes the same bits as Keras's in float32. A gradient of rows with momentum changes only the
    slots of these rows, where Keras's decays all.
    """

    def build(self, variables: Any) -> None:
        """Create the slots. Raises BadInput for Nesterov's momentum, and as every optimizer of this package."""
        if self.nesterov:
            raise BadInput("nesterov is not supported: there is no such update under a strategy.")
        super().build(variables)

    @property
    def _optimiser(self) -> str:
        return "momentum" if self.momentum else "sgd"

    def _slot_rule(self, variable: Any, rate: Any) -> SlotRule | None:
        if not self.momentum:
            return None
        slot = self.momentums[self._get_variable_index(variable)]
        return SlotRule(_texts(momentum=self.momentum), [slot], -tf.ones_like(rate))

    def _scaled(self, gradient: Any, rate: Any) -> Any:
        """Keras's velocity contains the learning rate, and is added: -(learning rate) times the gradient."""
        return _times(gradient, -rate)


@keras.saving.register_keras_serializable(package=PACKAGE)
class Adagrad(StrategyOptimizer, keras.optimizers.Adagrad):  # type: ignore[misc]
    """`keras.optimizers.Adagrad` under a strategy, with the same arguments, for dense gradients and for rows."""

    @property
    def _optimiser(self) -> str:
        return "adagrad"

    def _slot_rule(self, variable: Any, rate: Any) -> SlotRule:
        slot = self._accumulators[self._get_variable_index(variable)]
        return SlotRule(_texts(epsilon=self.epsilon), [slot], rate)


@keras.saving.register_keras_serializable(package=PACKAGE)
class Adam(StrategyOptimizer, keras.optimizers.Adam):  # type: ignore[misc]
    """`keras.optimizers.Adam` under a strategy: the same arguments, without AMSGrad.

    A gradient of rows changes only the moments of these rows ("lazy Adam", as in TensorFlow Addons), where Keras's
    makes the gradient dense and decays the moments of all rows. The bias is corrected by the number of steps that were
    complete when the update began.
    """

    def build(self, variables: Any) -> None:
        """Create the slots. Raises BadInput for AMSGrad, and as every optimizer of this package."""
        if self.amsgrad:
            raise BadInput("amsgrad is not supported: there is no such update under a strategy.")
        super().build(variables)

    @property
    def _optimiser(self) -> str:
        return "adam"

    def _slot_rule(self, variable: Any, rate: Any) -> SlotRule:
        index = self._get_variable_index(variable)
        step = tf.cast(self.iterations.value + 1, rate.dtype)
        first, second = (tf.pow(tf.cast(beta, rate.dtype), step) for beta in (self.beta_1, self.beta_2))
        hyperparameters = _texts(first_rate=1 - self.beta_1, second_rate=1 - self.beta_2, epsilon=self.epsilon)
        slots = [self._momentums[index], self._velocities[index]]
        return SlotRule(hyperparameters, slots, rate * tf.sqrt(1 - second) / (1 - first))


def _texts(**hyperparameters: float) -> list[str]:
    """As the native library takes them; Python's own floats, because NumPy's print their type."""
    return [f"{name}={float(value)!r}" for name, value in hyperparameters.items()]


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
