"""What the counters cost a step of a cluster: the same step with them and without, on one server and one worker.

The two alternate in short blocks on the same processes, so both meet the same moments of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tmflow.analysis.stats import Interval, ratio_interval
from tmflow.native.registry import resolve
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster.addresses import on_this_machine
from tmflow.training.cluster.driver import Task
from tmflow.training.cluster.replica import Replica
from tmflow.training.data import Images

PAIRS, BLOCK = 40, 50  # blocks of each kind, and their steps
WARM_UP_STEPS = 50


class Uncounted(Replica):
    """A graph whose step counts nothing: TensorFlow's update alone, and no version of the model."""

    def _build_step(self) -> Any:
        import tensorflow as tf

        self._gradients = self._gradients_of(self._reads())
        return tf.group(*map(self._update, self._variables, self._gradients))

    def _update(self, variable: Any, gradient: Any) -> Any:
        import tensorflow as tf

        with tf.device(variable.device):
            return tf.raw_ops.ApplyGradientDescent(
                var=variable._ref(), alpha=self.spec.learning_rate, delta=gradient, use_locking=True
            )


def cost_of_counters(spec: TrialSpec) -> Interval:
    """The time of a step of tf_lock with all counts over that without any; `spec` has one worker and usual measures."""
    addresses = on_this_machine(1, 1)
    tasks = [Task("ps", 0, addresses), Task("worker", 0, addresses)]
    try:
        for task in tasks:
            task.answer()
        target = f"grpc://{addresses.of('worker', 0)}"
        with_s, without_s = list[float](), list[float]()
        with _stepping(Replica, spec, target) as counted, _stepping(Uncounted, spec, target) as uncounted:
            timed = [(counted, with_s), (uncounted, without_s)]
            for _ in range(PAIRS):
                for step, seconds in timed:
                    seconds.append(_time(step))
                timed.reverse()
        return ratio_interval(with_s, without_s)
    finally:
        for task in reversed(tasks):
            task.end()


@contextmanager
def _stepping(kind: type[Replica], spec: TrialSpec, target: str) -> Iterator[Callable[[], object]]:
    """A function that runs a step, each on the next image."""
    replica = kind(spec, resolve(spec.strategy, spec.parameters()), 0, spec.seed, kind.__name__)
    data = Images("mnist", spec.seed, spec.matrix).of(spec.seed, spec.matrix)
    images = iter(range(len(data.train_images)))
    with replica.session(target) as session:  # its end needs the tasks
        replica.initialise(session, spec.seed, None)

        def step() -> object:
            at = next(images)
            feeds = {replica.images: data.train_images[at : at + 1], replica.labels: data.train_labels[at : at + 1]}
            return session.run(replica.step, feeds)

        for _ in range(WARM_UP_STEPS):
            step()
        yield step


def _time(step: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(BLOCK):
        step()
    return time.perf_counter() - began
