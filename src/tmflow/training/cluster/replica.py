"""A worker's graph: variables on the servers, gradients on the worker, each update on the server of its variable.

Between-graph replication: each worker builds its own graph over the same variables, which have the same names and so
are the same memory of a server. Reference variables, as in the study's TensorFlow.

Mode async: a step reads the version of the first server, then the variables, and applies each gradient under the
strategy as soon as it arrives at its server. The version counts completed steps, so a step's staleness is the number of
steps that others completed meanwhile. Mode sync: TensorFlow's SyncReplicasOptimizer averages the gradients of the
workers at the server and drops those that come late; the chief applies the mean under the strategy, and each worker
waits for it. Mode model_parallel: the layers of the model are split over the workers, in their order, and worker 0 runs
the steps, like one worker of mode async. A layer reads its variables from their servers and sends their gradients
there; its output and the gradient of its output go from worker to worker. So it was in TensorFlow's guide of 2016
("Distributed TensorFlow", where layers are on workers, and their weights on servers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tmflow.base.errors import Unsupported
from tmflow.native import availability, ops
from tmflow.native.registry import ResolvedStrategy
from tmflow.platform.software import tensorflow_version
from tmflow.runtime import session_config
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster.barrier import Barrier
from tmflow.training.cluster.checkpoint import Checkpoint, Weights
from tmflow.training.models import load_network
from tmflow.training.network import CLASSES, Layout
from tmflow.training.session import all_finite
from tmflow.training.tensorflow_module import import_tensorflow

INTRA_OP_THREADS = 1  # of every task, as for the session driver


class Replica:
    """The graph of one worker for one spec; `container` holds everything that it keeps on the servers."""

    def __init__(self, spec: TrialSpec, strategy: ResolvedStrategy, worker: int, seed: int, container: str) -> None:
        if tensorflow_version() is None:
            raise Unsupported("TensorFlow is not installed, and the cluster driver needs it")
        import_tensorflow()
        import tensorflow as tf

        assert spec.servers is not None, "a spec of this driver has it"
        self.spec, self.strategy, self.worker = spec, strategy, worker
        self._model, tf1 = load_network(spec.model), tf.compat.v1
        self.graph = tf.Graph()
        with self.graph.as_default(), self.graph.container(container), tf.device(device("worker", worker)):
            tf1.set_random_seed(seed)
            self._layout = Layout(self._model.variables(spec), joined=spec.layout == "joined")
            shapes = self._layout.variables
            self.images = tf1.placeholder(tf.float32, [None, spec.matrix])
            self.labels = tf1.placeholder(tf.float32, [None, CLASSES])
            self._initial = [tf1.placeholder(tf.float32, shape.shape) for shape in shapes]
            with tf1.device(tf1.train.replica_device_setter(spec.servers, ps_strategy=_Placement(spec))):
                self._variables = [
                    tf1.Variable(initial, use_resource=False, name=shape.name)
                    for shape, initial in zip(shapes, self._initial, strict=True)
                ]
            self._trackers = self._make_trackers()
            self.barrier = Barrier(worker, spec.threads, device("ps", 0))
            self._sync: Any = None
            self._gradients: list[Any] = []
            self.step = self._build_step()
            self.gradient_only = tf.group(*[tf.identity(gradient) for gradient in self._gradients])
            self._stored = {variable.op.name: tf.identity(variable._ref()) for variable in self._variables}
            at_rest = self._layout.separate(list(self._stored.values()))
            scores = self._model.logits(spec, self.images, at_rest, False)
            self.predict = tf.argmax(scores, 1), all_finite([scores])
            self.weights_finite = all_finite(at_rest)
            self._initialise = [variable.initializer for variable in self._variables]

    def servers_of_variables(self) -> dict[str, int]:
        """The index of the server that holds each variable."""
        import tensorflow as tf

        return {
            variable.op.name: int(tf.DeviceSpec.from_string(variable.device).task or 0) for variable in self._variables
        }

    def _make_trackers(self) -> dict[int, ops.Tracker]:
        """A tracker on each server that holds variables, and on the first one, which counts the steps."""
        import tensorflow as tf

        spec = self.spec
        held: dict[int, list[str]] = {0: []}
        for name, server in self.servers_of_variables().items():
            held.setdefault(server, []).append(name)
        trackers = {}
        for server, names in sorted(held.items()):
            with tf.device(device("ps", server)):
                trackers[server] = ops.Tracker(
                    spec.threads, names or ["none"], spec.measures, shared_name="tmflow_tracker"
                )
        return trackers

    def _build_step(self) -> Any:
        import tensorflow as tf

        if self.spec.mode == "sync":
            return self._build_sync_step()
        with tf.device(device("ps", 0)):
            version = self._trackers[0].begin_step()
        with tf.control_dependencies(
            [version]
        ):  # of the reads only, which are on servers: a worker's would wait for it
            reads = self._reads()
        self._gradients = self._gradients_of(reads)
        updates = [
            self._update(variable, gradient)
            for variable, gradient in zip(self._variables, self._gradients, strict=True)
        ]
        with tf.control_dependencies(updates), tf.device(device("ps", 0)):
            # An operation, not its value: to fetch one from a server makes a step of 2 ms 10 % slower.
            return self._trackers[0].end_step(tf.constant(self.worker), version).op

    def _build_sync_step(self) -> Any:
        import tensorflow as tf

        spec, tf1 = self.spec, tf.compat.v1
        self._gradients = self._gradients_of(self._reads())
        with tf.device(device("ps", 0)):
            global_step = tf1.train.get_or_create_global_step()
        backups = spec.backup_workers or 0
        self._sync = tf1.train.SyncReplicasOptimizer(
            _optimizer(self._update), replicas_to_aggregate=spec.threads - backups, total_num_replicas=spec.threads
        )
        pairs = list(zip(self._gradients, self._variables, strict=True))
        step = self._sync.apply_gradients(pairs, global_step=global_step)
        self._global_step = global_step
        (self._apply_mean,) = self._sync.get_chief_queue_runner().enqueue_ops
        return step

    def _reads(self) -> list[Any]:
        """The reads of the variables in a step, on their servers; the worker receives copies."""
        import tensorflow as tf

        spec, reads = self.spec, []
        for variable in self._variables:
            with tf.device(variable.device):
                if self.strategy.is_stock or (spec.reading == "plain" and spec.measures == "usual"):
                    reads.append(tf.identity(variable._ref()))
                    continue
                tracker, index = self._tracked(variable)
                reads.append(
                    ops.read(
                        variable, strategy=self.strategy, tracker=tracker, worker=tf.constant(self.worker), index=index,
                        consistent=spec.reading == "consistent",
                    )
                )  # fmt: skip
        return reads

    def _gradients_of(self, reads: Sequence[Any]) -> list[Any]:
        import tensorflow as tf

        separate = self._layout.separate(reads)
        output = self._model.logits(self.spec, self.images, separate, True, self._place)
        with self._place(len(self._model.layers) - 1):
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=self.labels, logits=output))
        return self._layout.together(tf.gradients(loss, separate))  # each operation is where its forward one is

    def _place(self, layer: int) -> AbstractContextManager[Any]:
        """Places a layer on this worker, or in mode model_parallel on that of its part of the layers."""
        import tensorflow as tf

        if self.spec.mode != "model_parallel":
            return nullcontext()
        worker = layer * self.spec.threads // len(self._model.layers)
        placed: AbstractContextManager[Any] = tf.device(device("worker", worker))
        return placed

    def _update(self, variable: Any, gradient: Any) -> Any:
        """The update of a variable on its server under the strategy."""
        import tensorflow as tf

        tracker, index = self._tracked(variable)
        with tf.device(variable.device):
            return ops.apply_gradient_descent(
                variable, self.spec.learning_rate, gradient, strategy=self.strategy, tracker=tracker,
                worker=tf.constant(self.worker), index=index,
            )  # fmt: skip

    def _tracked(self, variable: Any) -> tuple[ops.Tracker, int]:
        tracker = self._trackers[self.servers_of_variables()[variable.op.name]]
        return tracker, tracker.variables.index(variable.op.name)

    def session(self, target: str) -> Any:
        """A session over the servers and this worker, which does not end if another worker does.

        In mode model_parallel it is over all workers, because each computes a part of every step.
        """
        import tensorflow as tf

        tf1 = tf.compat.v1
        workers = "/job:worker" if self.spec.mode == "model_parallel" else device("worker", self.worker)
        config = tf1.ConfigProto(intra_op_parallelism_threads=INTRA_OP_THREADS, device_filters=["/job:ps", workers])
        return tf1.Session(target, graph=self.graph, config=session_config(self.spec.executor, config))

    def initialise(self, session: Any, seed: int, checkpoint: Checkpoint | None) -> None:
        """Give the variables their initial values or a checkpoint's, and reset all counts; only for the chief."""
        availability.require(self.strategy)
        if checkpoint is None:
            updates, initial = 0, self._layout.arrays_together(self._model.initial_values(self.spec, seed))
        else:
            updates, initial = checkpoint.progress.updates, [checkpoint.weights[name] for name in self._stored]
        session.run(self._initialise, dict(zip(self._initial, initial, strict=True)))
        for tracker in self._trackers.values():
            tracker.reset(session)
        if self._sync is not None:
            initializer = self._global_step.initializer
            session.run(initializer, {initializer.inputs[1]: updates})
            session.run(self._sync.chief_init_op)

    def join(self, session: Any) -> int:
        """Take over the number of updates of mode sync from the servers, and return it; not for the chief."""
        if self._sync is None:
            return 0
        session.run(self._sync.local_step_init_op)
        return int(session.run(self._global_step))

    def weights(self, session: Any) -> Weights:
        """The values of the variables on the servers, by name. Call it while no worker updates."""
        weights: Weights = session.run(self._stored)
        return weights

    def average(self, session: Any, updates: int) -> None:
        """Apply so many means of gradients, each when enough workers have sent theirs; for the chief in mode sync."""
        for _ in range(updates):
            session.run(self._apply_mean)

    def stats(self, session: Any) -> ops.Stats:
        """The counts of all servers; staleness is counted by the first."""
        counted = [tracker.stats(session) for tracker in self._trackers.values()]
        return ops.Stats(*[[row for rows in of_servers for row in rows] for of_servers in zip(*counted, strict=True)])

    @property
    def fused(self) -> list[str]:
        """The variables whose updates are fused with their gradients, in the model's order."""
        fused = {name for tracker in self._trackers.values() for name in tracker.fused}
        return [variable.op.name for variable in self._variables if variable.op.name in fused]


class _Placement:
    """Chooses the server of each variable, in their order: in turn, or the one with the fewest bytes so far."""

    def __init__(self, spec: TrialSpec) -> None:
        assert spec.servers is not None, "a spec of this driver has it"
        self._by_size, self._load = spec.placement == "size", [0] * spec.servers

    def __call__(self, operation: Any) -> int:
        output = operation.outputs[0]
        server = min(range(len(self._load)), key=self._load.__getitem__)
        self._load[server] += math.prod(output.shape) * output.dtype.size if self._by_size else 1
        return server


def _optimizer(update: Callable[[Any, Any], Any]) -> Any:
    """An optimizer of TensorFlow that updates a reference variable by this function of variable and gradient."""
    import tensorflow as tf

    class ByStrategy(tf.compat.v1.train.Optimizer):  # type: ignore[misc]  # TensorFlow has no types
        def _apply_dense(self, grad: Any, var: Any) -> Any:
            return update(var, grad)

    return ByStrategy(use_locking=False, name="by_strategy")


def device(job: str, index: int) -> str:
    """The name of a task's processor in TensorFlow."""
    return f"/job:{job}/task:{index}/device:CPU:0"
