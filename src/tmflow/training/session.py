"""The session driver: Python threads share one TensorFlow session, as in the study.

A step reads the version, then the variables, computes the gradients (`gradient_cost` times), applies each under the
strategy, and finally records its staleness. With `passes: forward` it computes the output in place of gradients and
updates. Version and staleness are two small operations more than in the study's step, the same for every strategy.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from tmflow.base.errors import Diverged, Unsupported
from tmflow.native import availability, ops
from tmflow.native.optimizer import apply_all, inputs_of_updates
from tmflow.native.registry import ResolvedStrategy
from tmflow.native.slots import Slots
from tmflow.platform.software import tensorflow_version
from tmflow.runtime import session_config
from tmflow.spec.models import MODELS
from tmflow.spec.trial import TrialSpec
from tmflow.training.data import TrialData, batch_starts, has_values
from tmflow.training.measurement import NOT_FINITE, Measurement, warm_up_spec
from tmflow.training.models import load_network
from tmflow.training.network import Layout
from tmflow.training.tensorflow_module import import_tensorflow

EVALUATION_CHUNK = 500  # the most images of a chunk
EVALUATED_ELEMENTS = 10_000_000  # the most elements of rows that a chunk gathers
EVALUATION_CHUNKS = 4  # the fewest chunks, each evaluated by one thread


class Variant:
    """A graph and its session for one model and strategy, for trials of any threads, batch and length."""

    def __init__(self, spec: TrialSpec, strategy: ResolvedStrategy, max_workers: int, seed: int) -> None:
        if tensorflow_version() is None:
            raise Unsupported("TensorFlow is not installed, and the session driver needs it")
        if reason := availability.unsupported_reason(spec, strategy):
            raise Unsupported(reason)
        import_tensorflow()
        import tensorflow as tf

        tf1 = tf.compat.v1
        self._spec, self._strategy, self._model = spec, strategy, load_network(spec.model)
        config = session_config(spec.executor, self._config())  # before the graph, which takes longer
        graph = tf.Graph()
        with graph.as_default():
            tf1.set_random_seed(seed)
            self._layout = Layout(self._model.variables(spec), joined=spec.layout == "joined")
            shapes = self._layout.variables
            example = tf.int32 if MODELS[spec.model].by_rows else tf.float32
            of_example = self._model.pixels(spec) * (2 if has_values(spec) else 1)
            self._images = tf1.placeholder(example, [None, of_example])
            self._labels = tf1.placeholder(tf.float32, [None, self._model.classes(spec)])
            self._worker = tf1.placeholder(tf.int32, [])
            self._initial = [tf1.placeholder(tf.float32, shape.shape) for shape in shapes]
            use_resource = spec.variables == "resource"
            variables = [
                tf1.Variable(initial, use_resource=use_resource, name=shape.name)
                for shape, initial in zip(shapes, self._initial, strict=True)
            ]
            self._initialise = [variable.initializer for variable in variables]
            has_slots = spec.optimiser != "sgd"
            names = [shape.name for shape in shapes]
            self._tracker = ops.Tracker(max_workers, names, spec.measures, has_slots=has_slots)
            self._slots = Slots(spec.optimiser, variables, self._tracker) if has_slots else None
            if self._slots is not None:
                self._initialise += self._slots.initialise
            # The operations that notify a native strategy after an assignment, and before a read outside of it.
            self._restart, self._settle = (
                [] if self._strategy.is_stock else self._native_ops(ops.settle, variables, restart=restart)
                for restart in (True, False)
            )
            self._step = self._build_step(variables)
            at_rest = self._layout.separate([_read(variable) for variable in variables])
            scores = self._model.logits(spec, self._images, at_rest, False)
            self._predict = tf.argmax(scores, 1), all_finite([scores])
            self._weights_finite = all_finite(at_rest)
        self._session = tf1.Session(graph=graph, config=config)

    def _config(self) -> Any:
        """The configuration of the session, without its executor."""
        import tensorflow as tf

        spec, tf1 = self._spec, tf.compat.v1
        config = tf1.ConfigProto(
            intra_op_parallelism_threads=spec.intra_op_threads, inter_op_parallelism_threads=spec.inter_op_threads
        )
        if not self._model.is_optimised:
            config.graph_options.rewrite_options.disable_meta_optimizer = True
            config.graph_options.optimizer_options.opt_level = tf1.OptimizerOptions.L0
        return config

    def _build_step(self, variables: Sequence[Any]) -> Any:
        import tensorflow as tf

        spec = self._spec
        version = self._tracker.begin_step()
        with tf.control_dependencies([version]):  # emulated transactions do not detect readers: these notify them
            is_noted = self._strategy.is_emulated and spec.reading == "plain" and not MODELS[spec.model].by_rows
            noted = self._native_ops(ops.note_read, variables) if is_noted else []
        with tf.control_dependencies([version, *noted]):
            read = self._layout.separate(self._reads(variables))
        output = self._model.logits(spec, self._images, read, True)
        if spec.passes == "forward":  # the output is fetched: TensorFlow removes from a graph what is only waited for
            with tf.control_dependencies([output]):
                return [output, self._tracker.end_step(self._worker, version)]
        updates = apply_all(
            variables,
            self._layout.together(self._gradients(variables, read, output)),
            spec.learning_rate,
            strategy=self._strategy,
            tracker=self._tracker,
            worker=self._worker,
            steps=None if self._slots is None else self._slots.begin(spec.learning_rate, version),
        )
        with tf.control_dependencies(updates):
            return self._tracker.end_step(self._worker, version)

    def _gradients(self, variables: Sequence[Any], read: Sequence[Any], output: Any) -> list[Any]:
        """The gradients of a step by the values that it has read."""
        import tensorflow as tf

        if self._model.gradients is not None:
            return self._model.gradients(self._spec, read)
        losses = self._model.loss or _softmax_cross_entropy
        loss = tf.reduce_mean(losses(self._labels, output))
        # Gated, as in TensorFlow's optimisers: a layer's weights are updated only after the gradient of the layer below
        # has been propagated through them. Fused updates wait for all gradients, and never compute those of weights.
        gate = not self._strategy.is_fused
        with tf.control_dependencies(self._discarded_passes(variables, loss, read, gate=gate)):
            gradients: list[Any] = tf.gradients(loss, read, gate_gradients=gate)
        return gradients

    def _discarded_passes(self, variables: Sequence[Any], loss: Any, read: Sequence[Any], *, gate: bool) -> list[Any]:
        """All backward passes of a step but the last (`gradient_cost`), one after another; their gradients are dropped.

        TensorFlow would merge equal passes and remove those without a reader. A loop whose body has a side effect
        prevents both: the assertion reads whatever the updates would read, and never fails.
        """
        import tensorflow as tf

        passes = self._spec.gradient_cost - 1
        if passes == 0:
            return []

        def compute(number: Any) -> Any:
            gradients = tf.gradients(loss, read, gate_gradients=gate)
            needed = inputs_of_updates(variables, gradients) if self._strategy.is_fused else gradients
            needed = tf.nest.flatten(needed, expand_composites=True)  # a gradient of rows is several tensors
            with tf.control_dependencies([tf.raw_ops.Assert(condition=number < passes, data=needed)]):
                return number + 1

        done = tf.while_loop(lambda number: number < passes, compute, [tf.constant(0)], parallel_iterations=1)
        return list(tf.nest.flatten(done))

    def _reads(self, variables: Sequence[Any]) -> list[Any]:
        """The reads of the variables in a step: through the strategy or plain, counted with full measures."""
        spec = self._spec
        consistent = spec.reading == "consistent"
        stock = self._strategy.is_stock
        if not consistent and (spec.measures == "usual" or stock):
            return [_read(variable) if stock else ops.view(variable) for variable in variables]
        return self._native_ops(ops.read, variables, worker=self._worker, consistent=consistent)

    def _native_ops(self, make: Callable[..., Any], variables: Sequence[Any], **attributes: Any) -> list[Any]:
        """An operation of a native strategy for each variable."""
        shared: dict[str, Any] = {"strategy": self._strategy, "tracker": self._tracker, **attributes}
        return [make(variable, index=index, **shared) for index, variable in enumerate(variables)]

    def close(self) -> None:
        self._session.close()

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values with `spec`, which differs from the variant's only in factors per trial.

        Raises Unsupported if it cannot run here, or if this process does not meet the needs of the strategy after the
        trial. Raises Diverged if a variable or a score of a test image is not finite in an evaluation.
        """
        measured = Measurement()
        began = time.monotonic()
        initial = self._layout.arrays_together(self._model.initial_values(spec, trial_seed))
        self._session.run(self._initialise, dict(zip(self._initial, initial, strict=True)))
        self._session.run(self._restart)
        self._tracker.reset(self._session)
        step = self._step_call(spec)
        starts = batch_starts(trial_seed, len(data.train_images), spec.batch, spec.iterations)
        measured.setup_s = time.monotonic() - began

        measured.train(
            spec,
            starts,
            lambda steps: _timed_loop(step, steps, spec, data),
            lambda: self._accuracy(data, spec.test_images),
        )
        availability.require(self._strategy)
        rows = self._tracker.stats(self._session)._asdict()
        for name in ("counters", "reads"):  # omits workers that this trial does not have
            rows[name] = [row for row in rows[name] if row["worker"] < spec.threads]
        return replace(measured, fused=list(self._tracker.fused), **rows)

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard a short trial: the first steps build kernels, thread pools and buffers."""
        steps = MODELS[self._spec.model].warm_up_steps
        spec = warm_up_spec(self._spec, workers, batch, steps, EVALUATION_CHUNK)
        self.run(spec, spec.seed, data)

    def _step_call(self, spec: TrialSpec) -> Callable[[Any, Any, Any], object]:
        feeds = (self._images, self._labels, self._worker)
        if spec.step_call == "callable":
            call: Callable[[Any, Any, Any], object] = self._session.make_callable(self._step, feed_list=list(feeds))
            return call
        return lambda *values: self._session.run(self._step, dict(zip(feeds, values, strict=True)))

    def _accuracy(self, data: TrialData, images: int) -> float:
        """Share of the first `images` test images that the current model classifies correctly.

        Raises Diverged if a weight or a score is not finite, because the accuracy is then undefined.
        """
        self._session.run(self._settle)
        if not self._session.run(self._weights_finite):
            raise Diverged(NOT_FINITE)

        images = min(images, len(data.test_images))
        size = min(EVALUATION_CHUNK, -(-images // EVALUATION_CHUNKS))
        if MODELS[self._spec.model].by_rows:  # it gathers the rows of all examples of a chunk
            of_example = self._model.pixels(self._spec) * self._model.classes(self._spec)
            size = max(1, min(size, EVALUATED_ELEMENTS // of_example))

        def correct(first: int) -> int:
            chunk = slice(first, min(first + size, images))
            predicted, finite = self._session.run(self._predict, {self._images: data.test_images[chunk]})
            if not finite:
                raise Diverged(NOT_FINITE)
            return int((predicted == data.test_digits[chunk]).sum())

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return sum(pool.map(correct, range(0, images, size))) / images


def _read(variable: Any) -> Any:
    import tensorflow as tf

    return variable.read_value() if hasattr(variable, "handle") else tf.identity(variable._ref())


def _softmax_cross_entropy(labels: Any, scores: Any) -> Any:
    import tensorflow as tf

    return tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=scores)


def all_finite(tensors: Sequence[Any]) -> Any:
    """A scalar: whether all elements of all tensors are finite."""
    import tensorflow as tf

    return tf.reduce_all([tf.reduce_all(tf.math.is_finite(tensor)) for tensor in tensors])


def _timed_loop(step: Callable[[Any, Any, Any], object], starts: Any, spec: TrialSpec, data: TrialData) -> float:
    """Run the steps on the workers; return the seconds from the first worker's start to the last worker's end."""
    barrier = threading.Barrier(spec.threads)

    def work(worker: int) -> tuple[float, float]:
        index = np.int32(worker)
        slices = [slice(start, start + spec.batch) for start in starts[worker :: spec.threads].tolist()]
        barrier.wait()
        began = time.monotonic()
        for chunk in slices:
            step(data.train_images[chunk], data.train_labels[chunk], index)
        return began, time.monotonic()

    with ThreadPoolExecutor(spec.threads) as pool:
        try:
            workers = [pool.submit(work, worker) for worker in range(spec.threads)]
        except RuntimeError:  # no more threads: those that have started would wait for ever
            barrier.abort()
            raise
        times = [worker.result() for worker in workers]
    return max(end for _, end in times) - min(began for began, _ in times)
