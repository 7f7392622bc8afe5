"""A Keras model that trains in many ways, and has its values again afterwards."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tmflow import optimizers
from tmflow.advice.architecture import architecture_sha256
from tmflow.advice.candidates import Way
from tmflow.advice.measurement import CountedRun, Counts
from tmflow.base.errors import BadInput
from tmflow.native.automatic import AUTO
from tmflow.native.ops import Stats
from tmflow.optimizers.strategy_optimizer import StrategyOptimizer, check_keras
from tmflow.parallel import workers as parallel
from tmflow.parallel.shared_reads import replaced_reads, shared_reads
from tmflow.parallel.threads import work_together
from tmflow.spec.factors import Measures
from tmflow.spec.shapes import Shape, shapes_text, variable_name

_TMFLOW: dict[str, Any] = {"SGD": optimizers.SGD, "Adagrad": optimizers.Adagrad, "Adam": optimizers.Adam}
_KERAS = {"SGD": keras.optimizers.SGD, "Adagrad": keras.optimizers.Adagrad, "Adam": keras.optimizers.Adam}
_OUR_ARGUMENTS = ("strategy", "consistency", "workers", "measures")


_OF_ALL_ROWS = ("clipnorm", "clipvalue", "global_clipnorm", "weight_decay")  # arguments with which all rows are updated


class _RecordingOptimizer(keras.optimizers.SGD):  # type: ignore[misc]  # Keras has no type hints
    """An optimizer that updates nothing, and notes how many rows it was to update of the variables with such gradients.

    rows: by the `id` of the variable.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, int] = {}

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        for gradient, variable in zip(grads, trainable_variables, strict=True):
            if isinstance(gradient, tf.IndexedSlices):
                self.rows[id(variable)] = len(np.unique(gradient.indices))


class _GradientsOnly(keras.optimizers.SGD):  # type: ignore[misc]  # as above
    """An optimizer that updates nothing.

    It stores an element of each gradient: TensorFlow does not compute what nobody uses, not even what others wait for.
    """

    def __init__(self) -> None:
        super().__init__()
        self._stored = tf.Variable(0.0, trainable=False)

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        del trainable_variables
        given = [gradient for gradient in grads if gradient is not None]  # None: the loss does not use the variable
        values = [one.values if isinstance(one, tf.IndexedSlices) else one for one in given]
        firsts = [tf.cast(tf.reshape(value, [-1])[:1], tf.float32) for value in values]
        self._stored.assign(tf.reduce_sum(tf.concat(firsts, 0)))
        self._iterations.assign_add(1)


class _Training(NamedTuple):
    optimizer: Any
    train: Callable[[Any], Any]


class Rehearsal:
    """A compiled model and its data; each way has its own optimizer and traced function, and all share the variables.

    Every run begins with the values that the variables had at first. The optimizers keep their slots, each as large as
    the variables, until the end.
    """

    has_own = True

    def __init__(self, model: Any, dataset: Any, *, consistency: str) -> None:
        """`dataset`: a finite `tf.data.Dataset` of batches, which is repeated.

        Raises BadInput for anything else, for a model that is not compiled, whose optimizer is none of SGD, Adagrad and
        Adam, or that has no trainable variables.
        """
        check_keras()
        parallel.check_compiled(model)
        self._kind, self._arguments = _describe(model.optimizer)
        _check_dataset(dataset)
        parallel.build(model, dataset)
        if not model.trainable_variables:
            raise BadInput("the model has no trainable variables.")
        self.model, self._consistency = model, consistency
        self._variables = [variable.value for variable in model.trainable_variables]
        self._all = [variable.value for variable in model.variables]
        self._values = [value.numpy() for value in self._all]
        self._first = next(iter(dataset))
        self._batch = _examples_of(self._first)
        self._dataset = dataset
        self._begin_batches()
        self._trainings: dict[Way, _Training] = {}

    def _begin_batches(self) -> None:
        """Let the steps that follow begin with the first batch; a call that failed may have cancelled the iterator."""
        self._batches = iter(self._dataset.repeat())

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
        """The lines of a training so, with the arguments of the model's optimizer."""
        if way.strategy is None:
            steps = f", steps_per_execution={way.per_call}" if way.per_call > 1 else ""
            return [f"model.compile(optimizer, loss=..., metrics=...{steps})    # Keras's own", "model.fit(dataset)"]
        chosen = f'consistency="{consistency}"' if way.strategy == AUTO else f'strategy="{way.strategy}"'
        arguments = ", ".join([*_code(self._kind, self._arguments), chosen])
        steps = f", steps_per_call={way.per_call}" if way.per_call != self.most_per_call else ""
        return [
            "import tmflow.optimizers",
            f"model.compile(tmflow.optimizers.{self._kind}({arguments}), loss=..., metrics=...)",
            f"tmflow.Workers({way.workers}).fit(model, dataset, epochs=...{steps})",
        ]

    def factors(self) -> dict[str, Any]:
        """What a spec says of the model, its data and its optimizer. A rate that changes has its first value."""
        optimizer = self._optimizer(Way(AUTO), "usual")  # lacks Keras's arguments that no strategy supports
        configuration = {"class_name": self._kind, "config": _describe(optimizer)[1]}
        return {
            "driver": "keras",
            "shapes": shapes_text(self._shapes()),
            "architecture": architecture_sha256(self.model, configuration),
            "batch": self._batch,
            "learning_rate": float(str(np.float32(optimizer.learning_rate))),  # 0.01, and not 0.009999999776482582
            "optimiser": self.optimiser,
        }

    def _shapes(self) -> list[Shape]:
        """The shapes of the variables, with the rows that a step on the first batch updates, if it is no more."""
        return [Shape(tuple(one.shape.as_list()), rows) for one, rows in zip(self._variables, self._rows, strict=True)]

    @cached_property
    def _rows(self) -> Sequence[int | None]:
        """The rows of each variable that a step on the first batch updates; None if it is the whole variable."""
        if any(self._arguments.get(name) for name in _OF_ALL_ROWS):
            return [None] * len(self._variables)
        recorder = _RecordingOptimizer()
        with _state_kept(self.model, recorder, 1):
            self.model.train_step(self._first)
        self.restore()
        return [recorder.rows.get(id(variable)) for variable in self.model.trainable_variables]

    def prepare(self, way: Way, measures: Measures = "usual") -> None:
        """Build the optimizer of a way and trace its function, with one call. Raises BadInput if it cannot be."""
        self._trainings[way] = self._traced(self._optimizer(way, measures), way, self._reads(way))

    def run(self, way: Way, calls: int) -> float:
        """Make so many calls of a prepared way, from the values of the beginning; returns the seconds."""
        training = self._trainings[way]
        try:
            return self._time(training, way.workers, calls)
        finally:
            _release(training.optimizer)

    def count(self, way: Way, calls: int) -> Counts:
        """Run a way with full measures, with counted copies of the variables in place of reads of their memory.

        Variables of which a step updates rows are read as usual: their torn reads are not counted. Raises BadInput for
        what full measures cannot count.
        """
        optimizer = self._optimizer(way, "full")
        optimizer.build(self.model.trainable_variables)
        training = self._traced(optimizer, way, self._counted_reads(optimizer), refused="")
        try:
            seconds = self._time(training, way.workers, calls, begin=training.optimizer.reset_counters)
            stats: Stats = training.optimizer.counters()
        finally:
            _release(training.optimizer)
        expected = sum(row["expected"] for row in stats.lost)
        lost = sum(row["lost"] for row in stats.lost) / expected if expected else None
        reads, torn = (sum(row[name] for row in stats.reads) for name in ("reads", "torn"))
        steps = calls * way.per_call
        numbers = {variable.path: number for number, variable in enumerate(self.model.trainable_variables, start=1)}
        rows = [row | {"variable": variable_name(numbers[row["variable"]])} for row in stats.lost]
        run = CountedRun(steps, seconds, rows)
        waited_us, held_us = (
            1e6 * sum(row.get(name) or 0.0 for row in stats.counters) / steps
            for name in ("lock_waited_s", "lock_held_s")
        )
        return Counts(
            lost=lost, reads=reads or None, torn=torn if reads else None,
            waited_us=waited_us if held_us else None, held_us=held_us or None, run=run,
        )  # fmt: skip

    def reached(self, way: Way, calls: int, validation: Any) -> tuple[float, dict[str, float]]:
        """The seconds, and the loss and the metrics, of a training by an optimizer that has made no step before.

        validation: a `tf.data.Dataset` of batches, (x, y) or (x, y, sample_weight).
        """
        optimizer = self._optimizer(way, "usual")
        optimizer.build(self.model.trainable_variables)
        state = [(variable.value, variable.value.numpy()) for variable in optimizer.variables]
        training = self._traced(optimizer, way, self._reads(way))
        try:
            for variable, value in state:
                variable.assign(value)
            seconds = self._time(training, way.workers, calls, before=0)
        finally:
            _release(optimizer)
        data = {"x": validation} if isinstance(validation, tf.data.Dataset) else _named(validation)
        reached = self.model.evaluate(**data, verbose=0, return_dict=True)
        return seconds, {name: float(value) for name, value in reached.items()}

    def check_validation(self, validation: Any) -> None:
        """Raise BadInput unless the accuracy can be measured on it."""
        if isinstance(validation, tf.data.Dataset):
            _check_dataset(validation)
        elif not isinstance(validation, tuple) or len(validation) not in (2, 3):
            raise BadInput("validation should be a tf.data.Dataset of batches, (x, y) or (x, y, sample_weight).")

    def restore(self) -> None:
        """Give the variables the values that they had at first."""
        for variable, value in zip(self._all, self._values, strict=True):
            variable.assign(value)

    def close(self) -> None:
        """Give the model its values, reset its metrics, and let other optimizers update it."""
        self.restore()
        for training in self._trainings.values():
            _release(training.optimizer)
        self.model.reset_metrics()
        self.model.train_function = self.model.test_function = self.model.predict_function = None

    def _traced(
        self,
        optimizer: Any,
        way: Way,
        reads: AbstractContextManager[None],
        refused: str = "{way} cannot train this model: ",
    ) -> _Training:
        """`refused`: what an error of TensorFlow begins with."""
        with _state_kept(self.model, optimizer, way.per_call), reads:
            self.model.make_train_function(force=True)
            train = self.model.train_function
            try:
                with parallel.atomic_additions:
                    train(self._batches)
            except tf.errors.OpError as error:
                self._begin_batches()
                raise BadInput(refused.format(way=way) + _last_line(error)) from error
            finally:
                _release(optimizer)
        return _Training(optimizer, train)

    def _time(
        self,
        training: _Training,
        workers: int,
        calls: int,
        before: int = 1,
        begin: Callable[[], None] = lambda: None,
    ) -> float:
        """The seconds of so many calls, after some `before` the clock: the first one copies what was just assigned.

        begin: is called between the two.
        """
        self.restore()
        numbers = itertools.count()  # whose next is atomic

        def call() -> bool:
            if next(numbers) >= calls:
                return False
            training.train(self._batches)
            return True

        with parallel.atomic_additions:
            for _ in range(before):
                training.train(self._batches)
            begin()
            began = time.monotonic()
            work_together(workers, call, consequence=(tf.errors.CancelledError,))
            return time.monotonic() - began

    def _optimizer(self, way: Way, measures: Measures) -> Any:
        if way.step == "without update":
            return _GradientsOnly()
        if way.strategy is None:
            return _KERAS[self._kind].from_config(self._arguments)
        arguments: Mapping[str, Any] = {
            "strategy": way.strategy,
            "consistency": self._consistency if way.strategy == AUTO else None,
            "measures": measures,
        }
        return _TMFLOW[self._kind].from_config({**self._arguments, **arguments})

    def _reads(self, way: Way) -> AbstractContextManager[None]:
        """Workers read the memory of the variables, as `Workers.fit` does by default, or TensorFlow's values."""
        if way.strategy is None or way.step == "with copies":
            return nullcontext()
        return shared_reads(self._variables)

    @contextmanager
    def _counted_reads(self, optimizer: StrategyOptimizer) -> Iterator[None]:
        pairs = list(zip(self._variables, self._rows, strict=True))
        tables = [variable for variable, rows in pairs if rows is not None]
        others = [variable for variable, rows in pairs if rows is None]
        with shared_reads(tables), replaced_reads(others, optimizer.copy):
            yield


def _release(optimizer: Any) -> None:
    """Let the optimizers of other ways update the variables, under other strategies."""
    if isinstance(optimizer, StrategyOptimizer) and optimizer.built:
        optimizer.release()


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
    if not isinstance(optimizer, StrategyOptimizer) and type(optimizer) is not _KERAS.get(kind):
        raise BadInput(f"the optimizer is {kind}; tmflow has SGD, Adagrad and Adam.")
    config = optimizer.get_config()
    return kind, {name: value for name, value in config.items() if name not in _OUR_ARGUMENTS}


def _code(kind: str, arguments: Mapping[str, Any]) -> Iterator[str]:
    """The arguments that are not Keras's defaults, as code; `...` for a schedule."""
    usual = _KERAS[kind]().get_config()
    for name, value in arguments.items():
        if name == "name" or (name != "learning_rate" and value == usual.get(name)):
            continue
        text = "..." if isinstance(value, dict) else f"{value:.7g}" if isinstance(value, float) else repr(value)
        yield text if name == "learning_rate" else f"{name}={text}"


def _check_dataset(dataset: Any) -> None:
    if not isinstance(dataset, tf.data.Dataset):
        raise BadInput(f"the data is of type {type(dataset).__name__}, but should be a tf.data.Dataset of batches.")
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise BadInput("the dataset is infinite: end it with dataset.take(n), the number of batches of an epoch.")
    if next(iter(dataset), None) is None:
        raise BadInput("the data has no batch.")


def _examples_of(batch: Any) -> int:
    """The number of examples in a batch. Raises BadInput for data that is not in batches."""
    first = tf.nest.flatten(batch, expand_composites=True)[0]
    if first.shape.rank == 0:
        raise BadInput("the data is not in batches: call dataset.batch(n).")
    return int(first.shape[0])


def _named(validation: Any) -> dict[str, Any]:
    return dict(zip(("x", "y", "sample_weight"), validation, strict=False))


def _last_line(error: tf.errors.OpError) -> str:
    """The reason in an error of TensorFlow, which comes after the trace of the graph."""
    lines = [line for line in str(error.message).splitlines() if line.strip() and "[[" not in line]
    return lines[-1].strip() if lines else type(error).__name__
