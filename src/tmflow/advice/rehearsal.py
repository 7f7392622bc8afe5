"""A Keras model that trains in many ways, and is as it was afterwards."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tmflow import optimizers
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import Counted
from tmflow.base.errors import BadInput
from tmflow.native.automatic import AUTO
from tmflow.native.ops import Stats
from tmflow.optimizers.strategy_optimizer import StrategyOptimizer
from tmflow.parallel import workers as parallel
from tmflow.parallel.shared_reads import shared_reads
from tmflow.parallel.threads import work_together
from tmflow.spec.factors import Measures

_OURS: dict[str, Any] = {"SGD": optimizers.SGD, "Adagrad": optimizers.Adagrad, "Adam": optimizers.Adam}
_KERAS = {"SGD": keras.optimizers.SGD, "Adagrad": keras.optimizers.Adagrad, "Adam": keras.optimizers.Adam}
_OUR_ARGUMENTS = ("strategy", "consistency", "workers", "measures")


class _Prepared(NamedTuple):
    optimizer: Any
    train: Callable[[Any], Any]


class Rehearsal:
    """A compiled model and its data; each way has its own optimizer and traced function, and all share the variables.

    Every run begins with the values that the variables had at first.
    """

    has_own = True

    def __init__(self, model: Any, dataset: Any, *, consistency: str) -> None:
        """`dataset`: a finite `tf.data.Dataset` of batches, which is repeated.

        Raises BadInput for a model that is not compiled, whose optimizer is none of SGD, Adagrad and Adam, or that has
        no trainable variables, and for data without a batch.
        """
        parallel.check_compiled(model)
        self._kind, self._arguments = _describe(model.optimizer)
        if next(iter(dataset), None) is None:
            raise BadInput("the data has no batch.")
        parallel.build(model, dataset)
        if not model.trainable_variables:
            raise BadInput("the model has no trainable variables.")
        self.model, self._consistency = model, consistency
        self._variables = [variable.value for variable in model.trainable_variables]
        self._all = [variable.value for variable in model.variables]
        self._values = [value.numpy() for value in self._all]
        self._batches = iter(dataset.repeat())
        self._prepared: dict[Way, _Prepared] = {}

    @property
    def optimiser(self) -> str:
        """The rule of the optimizer: "sgd", "momentum", "adagrad" or "adam"."""
        if self._kind == "SGD":
            return "momentum" if self._arguments.get("momentum") else "sgd"
        return self._kind.lower()

    @property
    def description(self) -> str:
        """The name of the model, and its size."""
        sizes = [int(np.prod(variable.shape)) for variable in self._variables]
        return f"{self.model.name}: {sum(sizes):,} parameters in {len(sizes)} variables"

    @property
    def most_per_call(self) -> int:
        """As many steps as `Workers.fit` makes in a call of TensorFlow."""
        return parallel.steps_of_call(self.model)

    def lines(self, way: Way, consistency: str) -> list[str]:
        """The lines of a training with `Workers.fit`."""
        if way.strategy is None:
            return ["keep your own: model.fit"]
        rate = self._arguments["learning_rate"]
        optimizer = f"tmflow.optimizers.{self._kind}({f'{rate:.3g}' if isinstance(rate, float) else '...'}"
        chosen = f'consistency="{consistency}"' if way.strategy == AUTO else f'strategy="{way.strategy}"'
        return [
            "import tmflow.optimizers",
            f"model.compile({optimizer}, {chosen}), loss=..., metrics=...)",
            f"tmflow.Workers({way.workers}).fit(model, dataset, epochs=...)",
        ]

    def prepare(self, way: Way, measures: Measures = "usual") -> None:
        """Trace the function of a way, and build its optimizer. Raises what Keras or the optimizer raises."""
        optimizer = self._optimizer(way, measures)
        with _state_kept(self.model, optimizer, way.per_call), self._reading(way):
            self.model.make_train_function(force=True)
            train = self.model.train_function
            with parallel.atomic_additions:
                train(self._batches)
        self._prepared[way] = _Prepared(optimizer, train)
        self.restore()
        _free(optimizer)

    def run(self, way: Way, calls: int) -> float:
        """Make so many calls of a prepared way, from the values of the beginning; returns the seconds."""
        seconds = self._time(way, calls)
        _free(self._prepared[way].optimizer)
        return seconds

    def count(self, way: Way, calls: int) -> Counted:
        """Run a way with full measures. Raises BadInput for rows and for what else they cannot count."""
        usual = self._prepared[way]
        self.prepare(way, "full")
        optimizer = self._prepared[way].optimizer
        seconds = self._time(way, calls)
        stats: Stats = optimizer.counters()
        _free(optimizer)
        self._prepared[way] = usual
        expected = sum(row["expected"] for row in stats.lost)
        lost = sum(row["lost"] for row in stats.lost) / expected if expected else None
        waited, held = (
            sum(row.get(name) or 0.0 for row in stats.counters) / (seconds * way.workers)
            for name in ("lock_waited_s", "lock_held_s")
        )
        return Counted(lost, waited, held) if held else Counted(lost)

    def evaluate(self, validation: Any) -> dict[str, float]:
        """The loss and the metrics of the present values on a dataset, or on (x, y)."""
        data = (
            {"x": validation} if isinstance(validation, tf.data.Dataset) else dict(zip("xy", validation, strict=True))
        )
        return {name: float(value) for name, value in self.model.evaluate(**data, verbose=0, return_dict=True).items()}

    def restore(self) -> None:
        """Give the variables the values that they had at first."""
        for variable, value in zip(self._all, self._values, strict=True):
            variable.assign(value)

    def close(self) -> None:
        """Leave the model as it was: its values, its metrics, and its optimizer, which has made no step."""
        self.restore()
        self.model.reset_metrics()
        self.model.train_function = self.model.test_function = self.model.predict_function = None

    def _time(self, way: Way, calls: int) -> float:
        self.restore()
        train, numbers = self._prepared[way].train, itertools.count()  # whose next is atomic

        def call() -> bool:
            if next(numbers) >= calls:
                return False
            train(self._batches)
            return True

        with parallel.atomic_additions:
            began = time.monotonic()
            work_together(way.workers, call)
            return time.monotonic() - began

    def _optimizer(self, way: Way, measures: Measures) -> Any:
        if way.strategy is None:
            return _KERAS[self._kind].from_config(self._arguments)
        ours: Mapping[str, Any] = {
            "strategy": way.strategy,
            "consistency": self._consistency if way.strategy == AUTO else None,
            "workers": way.workers,
            "measures": measures,
        }
        return _OURS[self._kind].from_config({**self._arguments, **ours})

    @contextmanager
    def _reading(self, way: Way) -> Iterator[None]:
        """Workers read the memory of the variables, as `Workers.fit` does by default."""
        if way.strategy is None:
            yield
        else:
            with shared_reads(self._variables):
                yield


def _free(optimizer: Any) -> None:
    """Let the optimizer of another way update the variables, under another strategy."""
    if isinstance(optimizer, StrategyOptimizer):
        optimizer.reset_counters()


@contextmanager
def _state_kept(model: Any, optimizer: Any, per_call: int) -> Iterator[None]:
    """While the context lasts the model has another optimizer and makes other numbers of steps in a call."""
    before = model.optimizer, model.steps_per_execution, model.train_function
    model.optimizer, model.steps_per_execution = optimizer, per_call
    try:
        yield
    finally:
        model.optimizer, model.steps_per_execution, model.train_function = before


def _describe(optimizer: Any) -> tuple[str, dict[str, Any]]:
    """The kind of an optimizer, and its configuration without the arguments that tmflow adds."""
    kind = type(optimizer).__name__
    known = isinstance(optimizer, StrategyOptimizer) or type(optimizer) is _KERAS.get(kind)
    if not known:
        raise BadInput(f"the optimizer is {kind}; tmflow has SGD, Adagrad and Adam.")
    config = optimizer.get_config()
    return kind, {name: value for name, value in config.items() if name not in _OUR_ARGUMENTS}
