"""`tmflow.Workers`: `fit` with several threads, each of which trains the model on batches of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import keras
import tensorflow as tf

from tmflow.base.errors import BadInput
from tmflow.optimizers.strategy_optimizer import StrategyOptimizer, add_atomically

STEPS_PER_CALL = 16  # of a worker in one call of TensorFlow, if the model was compiled with one step per call
POLL_S = 0.1  # how often the callbacks of batches hear of the progress
_SHUFFLED = 10_000  # examples in the buffer of the shuffle, at most


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
    ) -> Any:
        """Train a compiled model as `model.fit` does, and return its History.

        x: a finite `tf.data.Dataset` of batches, or an array of examples whose labels are `y`, which is shuffled anew
        in each epoch (with `seed`) and cut into batches. callbacks: those of batches are called some ten times a
        second, from this thread, with the number of steps so far, as Keras does with several steps per execution.
        steps_per_call: how many steps a worker makes in one call of TensorFlow.

        An interrupt (Ctrl-C) and an exception of a worker end the training after the current calls of the others: the
        model has every update that was made. The first exception of a worker is raised here, with its trace.

        Raises BadInput for a model that is not compiled, or not with an optimizer of `tmflow.optimizers`, for data
        without a batch, and for a number that is too small.
        """
        _check_model(model)
        for name, number in (("batch_size", batch_size), ("epochs", epochs), ("steps_per_call", steps_per_call)):
            if number is not None and (not isinstance(number, int) or number < 1):
                raise BadInput(f"{name} is {number!r}, but should be a whole number from 1 on.")
        dataset = _batches(x, y, batch_size, shuffle=shuffle, seed=seed)
        steps = int(dataset.cardinality())
        listeners = keras.callbacks.CallbackList(
            list(callbacks or ()), model=model, epochs=epochs, steps=steps if steps >= 0 else None,
            add_history=True, add_progbar=verbose != 0, verbose=1 if verbose == "auto" else verbose,
        )  # fmt: skip
        model.stop_training = False
        with _atomic_additions(), _steps_per_call(model, steps_per_call):
            listeners.on_train_begin()
            logs: dict[str, Any] = {}
            for epoch in range(initial_epoch, epochs):
                model.reset_metrics()
                listeners.on_epoch_begin(epoch)
                _Epoch(model, self.n, iter(dataset), listeners).run()
                logs = _plain(model.get_metrics_result())
                if validation_data is not None:
                    logs |= _validate(model, validation_data, batch_size, listeners)
                listeners.on_epoch_end(epoch, logs)
                if model.stop_training:
                    break
            listeners.on_train_end(logs)
        return model.history


class _Epoch:
    """One pass of the workers over the data."""

    def __init__(self, model: Any, workers: int, batches: Any, callbacks: Any) -> None:
        self._model, self._workers, self._batches, self._callbacks = model, workers, batches, callbacks
        self._stop = threading.Event()
        self._mutex = threading.Lock()  # guards what follows
        self._calls = 0
        self._logs: Any = {}
        self._error: BaseException | None = None

    def run(self) -> None:
        """Train until the data or the model's patience ends; the first exception of a worker is raised.

        The first call is made by one worker alone: it builds the model and the optimizer, and traces the functions.
        """
        if not self._call():
            raise BadInput("the data has no batch.")
        threads = [threading.Thread(target=self._work, name=f"tmflow-worker-{n}") for n in range(self._workers)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(POLL_S)
                    self._tell_progress()
        finally:
            self._stop.set()
            for thread in threads:
                thread.join()
        if self._error is not None:
            raise self._error
        self._tell_progress()

    def _work(self) -> None:
        try:
            while not self._stop.is_set() and self._call():
                pass
        except BaseException as error:  # the thread of the caller raises it
            with self._mutex:
                self._error = self._error or error
            self._stop.set()

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

    def _tell_progress(self) -> None:
        with self._mutex:
            calls, logs = self._calls, self._logs
        if calls == 0:
            return
        last = calls * self._model.steps_per_execution - 1
        self._callbacks.on_train_batch_begin(last)
        self._callbacks.on_train_batch_end(last, _plain(logs))
        if self._model.stop_training:
            self._stop.set()


@contextmanager
def _steps_per_call(model: Any, steps: int | None) -> Iterator[None]:
    """Let the model's train function make so many steps, and restore it afterwards."""
    before = model.steps_per_execution
    model.steps_per_execution = steps or (before if before > 1 else STEPS_PER_CALL)
    model.make_train_function(force=True)
    try:
        yield
    finally:
        model.steps_per_execution = before
        model.train_function = None


@contextmanager
def _atomic_additions() -> Iterator[None]:
    """Let the metrics that add up (the loss, means, accuracies) count every batch, whichever worker trains on it."""
    keras.Variable.assign_add = add_atomically
    try:
        yield
    finally:
        del keras.Variable.assign_add  # Keras's own is in a base class


def _check_model(model: Any) -> None:
    if not getattr(model, "compiled", False):
        raise BadInput("the model is not compiled: call model.compile with an optimizer of tmflow.optimizers first.")
    if not isinstance(model.optimizer, StrategyOptimizer):
        kind = type(model.optimizer)
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
            raise BadInput(
                "the dataset is infinite: give it an end with dataset.take(n), the number of batches of an epoch."
            )
        return x
    examples = tf.data.Dataset.from_tensor_slices(x if y is None else (x, y))
    if shuffle:
        examples = examples.shuffle(max(1, min(int(examples.cardinality()), _SHUFFLED)), seed=seed)
    return examples.batch(batch_size)


def _validate(model: Any, data: Any, batch_size: int, callbacks: Any) -> dict[str, Any]:
    is_dataset = isinstance(data, tf.data.Dataset)
    x, y = (data, None) if is_dataset else data[:2]
    logs = model.evaluate(
        x, y, batch_size=None if is_dataset else batch_size, callbacks=callbacks, return_dict=True, verbose=0
    )
    return {f"val_{name}": value for name, value in logs.items()}


def _plain(logs: Any) -> dict[str, Any]:
    """The numbers of logs in Python's types."""
    return {name: float(value) for name, value in logs.items()}
