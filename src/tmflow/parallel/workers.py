"""`tmflow.Workers`: `fit` with several threads, each of which trains the model on batches of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, get_args

import keras
import tensorflow as tf

from tmflow.base.errors import BadInput, unknown
from tmflow.base.text import listed
from tmflow.optimizers.strategy_optimizer import StrategyOptimizer, add_atomically
from tmflow.parallel.shared_reads import shared_reads
from tmflow.parallel.threads import work_together

Reads = Literal["shared", "values"]

STEPS_PER_CALL = 16  # of a worker in one call of TensorFlow, if the model was compiled with one step per call


class Workers:
    """Threads that train one model at the same time, by asynchronous data parallelism.

    Each batch goes to the worker that asks first. A worker reads the variables, computes the gradients of its batch and
    updates the variables, while others do the same; the optimizer of `tmflow.optimizers` keeps concurrent updates
    apart. Gradients may be computed from values that others have changed since: with several workers a training is not
    reproducible to the bit. With one worker it is that of `model.fit`.

    The metrics that Keras adds up (the loss, means, accuracies) count every batch. Others, such as AUC, and the moving
    averages of a batch normalisation are read and assigned by Keras, so they may miss some steps.
    """

    def __init__(self, n: int) -> None:
        """`n`: the number of workers, 1 to 1,024. Raises BadInput for any other."""
        if not isinstance(n, int) or not 1 <= n <= 1024:
            raise BadInput(f"the number of workers is {n!r}, but should be a whole number from 1 to 1024.")
        self.n = n

    def fit(
        self,
        model: Any,
        x: Any,
        y: Any = None,
        *,
        batch_size: int = 32,
        epochs: int = 1,
        initial_epoch: int = 0,
        verbose: str | int = "auto",
        callbacks: Sequence[Any] | None = None,
        validation_data: Any = None,
        shuffle: bool = True,
        seed: int | None = None,
        steps_per_call: int | None = None,
        reads: Reads = "shared",
    ) -> Any:
        """Train a compiled model as `model.fit` does, and return its History.

        reads: with "shared" a worker reads the memory of the trainable variables, so a step may see updates that others
        make while it runs: two uses of a variable in one step may have different values. With "values" it reads values
        as TensorFlow does, which never change; an update then copies each variable whose value another worker uses.

        x: a finite `tf.data.Dataset` of batches; or an array of examples whose labels are `y`, or a list of such arrays
        for a model with several inputs, shuffled anew in each epoch (with `seed`) and cut into batches.
        validation_data: a dataset of batches, or (x, y) or (x, y, sample_weight).

        callbacks: those of batches are called some ten times a second, from this thread, with the number of steps so
        far, as Keras does with several steps per execution. steps_per_call: how many steps a worker makes in one call
        of TensorFlow; if the model was not compiled with several, 16.

        An interrupt (Ctrl-C) and an exception of a worker end the training after the current calls of the others: the
        model has every update that was made. The first exception of a worker is raised here, with its trace; not one
        that only says that the failure of another worker cancelled its call.

        Raises BadInput for a model that is not compiled, or not with an optimizer of `tmflow.optimizers`, for data
        without a batch, and for a number that is too small.
        """
        check_compiled(model)
        _check_optimizer(model.optimizer)
        for name, number in (("batch_size", batch_size), ("epochs", epochs), ("steps_per_call", steps_per_call)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise BadInput(f"{name} is {number!r}, but should be a whole number from 1 on.")
        if reads not in get_args(Reads):
            raise unknown("reads", reads, get_args(Reads))
        dataset = _batches(x, y, batch_size, shuffle=shuffle, seed=seed)
        build(model, dataset)
        steps = int(dataset.cardinality())
        listeners = keras.callbacks.CallbackList(
            list(callbacks or ()), model=model, epochs=epochs, steps=steps if steps >= 0 else None,
            add_history=True, add_progbar=verbose != 0, verbose=1 if verbose == "auto" else verbose,
        )  # fmt: skip
        model.stop_training = False
        with atomic_additions, _steps_per_call(model, steps_per_call):
            listeners.on_train_begin()
            logs: dict[str, Any] = {}
            for epoch in range(model._initial_epoch or initial_epoch, epochs):  # set by Keras's BackupAndRestore
                model.reset_metrics()
                listeners.on_epoch_begin(epoch)
                with shared_reads(_variables(model)) if reads == "shared" else nullcontext():
                    last = _Epoch(model, self.n, iter(dataset), listeners, steps if steps >= 0 else None).run()
                logs = _plain(model._get_metrics_result_or_logs(last))
                if validation_data is not None:
                    logs |= _validate(model, validation_data, batch_size, listeners)
                listeners.on_epoch_end(epoch, logs)
                if model.stop_training:
                    break
            listeners.on_train_end(logs)
        return model.history


class _Epoch:
    """One pass of the workers over the data."""

    def __init__(self, model: Any, workers: int, batches: Any, callbacks: Any, steps: int | None) -> None:
        self._model, self._workers, self._batches, self._callbacks = model, workers, batches, callbacks
        self._steps = steps
        self._reported = 0  # of the calls
        self._mutex = threading.Lock()  # guards what follows
        self._calls = 0
        self._logs: Any = {}

    def run(self) -> Any:
        """Train until the data or the model's patience ends, and return the logs of the last call.

        The first call is made by one worker alone: it builds the optimizer and traces the functions. The first
        exception of a worker is raised. If a call fails while it asks for the next batch, TensorFlow cancels the
        iterator for all workers: the cancelled calls of the others are consequences.
        """
        if not self._call():
            raise BadInput("the data has no batch.")
        work_together(self._workers, self._call, self._tell_progress, consequence=(tf.errors.CancelledError,))
        self._tell_progress()
        return self._logs

    def _call(self) -> bool:
        """Train on some batches; False if there are none left."""
        try:
            logs = self._model.train_function(self._batches)
        except (StopIteration, tf.errors.OutOfRangeError):
            return False
        with self._mutex:
            self._calls += 1
            self._logs = logs
        return True

    def _tell_progress(self) -> bool:
        """Tell the callbacks of new calls; False if the training shall stop."""
        with self._mutex:
            calls, logs = self._calls, self._logs
        if calls != self._reported:
            self._reported = calls
            # The last call may be short.
            last = min(calls * self._model.steps_per_execution, self._steps or sys.maxsize) - 1
            self._callbacks.on_train_batch_begin(last)
            self._callbacks.on_train_batch_end(last, _plain(logs))
        return not self._model.stop_training


def steps_of_call(model: Any) -> int:
    """The steps that a worker makes in a call of TensorFlow: those that the model was compiled with, if several."""
    compiled: int = model.steps_per_execution
    return compiled if compiled > 1 else STEPS_PER_CALL


@contextmanager
def _steps_per_call(model: Any, steps: int | None) -> Iterator[None]:
    """Let the functions of the model make so many steps in a call; they are made anew for it, and again afterwards."""
    before = model.steps_per_execution
    model.steps_per_execution = steps or steps_of_call(model)
    model.test_function = model.predict_function = None
    model.make_train_function(force=True)
    try:
        yield
    finally:
        model.steps_per_execution = before
        model.train_function = model.test_function = model.predict_function = None


class _AtomicAdditions:
    """While it is in use, the metrics that add up (the loss, means, accuracies) count every batch of every worker."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._users = 0  # trainings; guarded by _mutex

    def __enter__(self) -> None:
        with self._mutex:
            self._users += 1
            keras.Variable.assign_add = add_atomically

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            self._users -= 1
            if self._users == 0:
                del keras.Variable.assign_add  # Keras's own is in a base class


atomic_additions = _AtomicAdditions()


def build(model: Any, dataset: Any) -> None:
    """Create the variables of a model that has none yet, by a prediction of the first batch."""
    if model.built:
        return
    first = next(iter(dataset), None)
    if first is None:
        raise BadInput("the data has no batch.")
    model(first[0] if isinstance(first, tuple) else first)


def _variables(model: Any) -> list[Any]:
    return [variable.value for variable in model.trainable_variables]


def check_compiled(model: Any) -> None:
    """Raise BadInput for a model that is not compiled, or compiled in a way that no strategy can serve."""
    if not getattr(model, "compiled", False):
        raise BadInput("the model is not compiled: call model.compile first, with an optimizer and a loss.")
    if getattr(model, "jit_compile", False):
        raise BadInput(
            "the model is compiled with jit_compile, but XLA does not know tmflow's updates: use jit_compile=False."
        )
    if hasattr(model.optimizer, "inner_optimizer"):
        raise BadInput("Keras's policy mixed_float16 wraps the optimizer in a loss scale: use mixed_bfloat16.")


def _check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, StrategyOptimizer):
        kind = type(optimizer)
        raise BadInput(
            f"the optimizer is {kind.__name__} of {kind.__module__}, whose concurrent steps would overwrite each "
            "other: compile the model with SGD, Adagrad or Adam of tmflow.optimizers."
        )


def _batches(x: Any, y: Any, batch_size: int, *, shuffle: bool, seed: int | None) -> Any:
    """The data as a finite dataset of batches."""
    if isinstance(x, tf.data.Dataset):
        if y is not None:
            raise BadInput("x is a dataset, which has the labels; y must not be given.")
        if x.cardinality() == tf.data.INFINITE_CARDINALITY:
            raise BadInput("the dataset is infinite: end it with dataset.take(n), the number of batches of an epoch.")
        return x
    inputs = tuple(x) if isinstance(x, list) else x  # of a model with several inputs
    arrays = tf.nest.map_structure(tf.convert_to_tensor, inputs if y is None else (inputs, y))
    sizes = {int(array.shape[0]) for array in tf.nest.flatten(arrays)}
    if len(sizes) > 1:
        raise BadInput(f"the arrays have {listed(sorted(sizes))} examples, but should have as many of each.")
    (size,) = sizes
    numbers = tf.data.Dataset.range(size)
    if shuffle and size:
        numbers = numbers.shuffle(size, seed=seed)
    of_batch = numbers.batch(batch_size)
    return of_batch.map(lambda chosen: tf.nest.map_structure(lambda array: tf.gather(array, chosen), arrays))


def _validate(model: Any, data: Any, batch_size: int, callbacks: Any) -> dict[str, Any]:
    if isinstance(data, tf.data.Dataset):
        arguments: dict[str, Any] = {"x": data}
    else:
        arguments = {**dict(zip(("x", "y", "sample_weight"), data, strict=False)), "batch_size": batch_size}
    logs = model.evaluate(**arguments, callbacks=callbacks, return_dict=True, verbose=0)
    return {f"val_{name}": value for name, value in logs.items()}


def _plain(logs: Any) -> dict[str, Any]:
    """Logs as Keras's callbacks have them: dictionaries in them are merged, and single numbers are Python's."""
    plain: dict[str, Any] = {}
    for name, value in logs.items():
        if isinstance(value, dict):
            plain |= _plain(value)
            continue
        try:
            plain[name] = float(value)
        except (TypeError, ValueError):  # a vector
            plain[name] = value
    return plain
