"""A task of a cluster on this machine: `python -m tmflow.training.cluster.task JOB INDEX`, driven by lines.

The process writes a line when it is ready, and then answers each line of its input, a command, with a line of its
output. Both are JSON. The first command starts a server of TensorFlow; there is one for each transport. The process
ends with its input, so it never outlives the process that started it. What TensorFlow prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Set
from dataclasses import asdict
from typing import Any, TextIO

from tmflow import runtime
from tmflow.base.errors import BadInput, Diverged, Unsupported
from tmflow.native import loader
from tmflow.native.registry import resolve
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster import network
from tmflow.training.cluster.addresses import Addresses, Job
from tmflow.training.cluster.barrier import CHIEF
from tmflow.training.cluster.checkpoint import CheckpointPlan
from tmflow.training.cluster.replica import INTRA_OP_THREADS, Replica
from tmflow.training.cluster.worker import Worker
from tmflow.training.data import Images
from tmflow.training.tensorflow_module import import_tensorflow

PROBE_LIMIT_S = 30.0  # for the chief to probe the network, once all tasks are up
ERRORS: dict[str, type[Exception]] = {error.__name__: error for error in (BadInput, Diverged, Unsupported)}


def start_server(addresses: Addresses, job: Job, index: int, transport: str) -> Any:
    """The server of a task, which listens on the task's address. Raises BadInput if it cannot."""
    import_tensorflow()
    import tensorflow as tf

    tf.get_logger().setLevel("ERROR")  # it calls the distributed runtime deprecated, in several lines
    loader.ops()  # before any graph that uses them arrives
    tf1 = tf.compat.v1
    try:
        return tf1.train.Server(
            tf1.train.ClusterSpec(addresses.model_dump()),
            job_name=job,
            task_index=index,
            protocol=runtime.protocol(transport),
            config=tf1.ConfigProto(intra_op_parallelism_threads=INTRA_OP_THREADS),
        )
    except (tf.errors.OpError, RuntimeError) as error:
        address = addresses.of(job, index)
        raise BadInput(
            f"{job} {index} cannot listen on {address}: is the port taken, or is the host not this machine? "
            f"TensorFlow says: {' '.join(str(error).split())[:200]}"
        ) from error


class Trainer:
    """Trains the trials that it is told to, as one worker; graphs of earlier trials are used again."""

    def __init__(
        self, job: Job, index: int, lost: Set[int] = frozenset(), servers: dict[str, Any] | None = None
    ) -> None:
        """Lost: the workers of the trial that have ended; another thread adds them. servers: by transport."""
        self._job, self._index, self._lost = job, index, lost
        self._servers = servers or {}
        self._images: dict[str, Images] = {}
        self._replicas: dict[str, Replica] = {}

    def serve(self, addresses: dict[str, Any], transport: str) -> None:
        """Start the server of this task for trials with the transport. Raises BadInput if it cannot."""
        self._servers[transport] = start_server(Addresses.model_validate(addresses), self._job, self._index, transport)

    def train(
        self, spec: dict[str, Any], seed: int, container: str, limit_s: float, plan: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Take part in a trial; the chief's answer has the measurements. plan: a `CheckpointPlan`, for the chief."""
        trial = TrialSpec.model_validate(spec)
        if trial.dataset not in self._images:  # making it reads the data set
            self._images[trial.dataset] = Images(trial.dataset, seed, trial.matrix)
        images = self._images[trial.dataset]
        if container not in self._replicas:
            strategy = resolve(trial.strategy, trial.parameters())
            self._replicas[container] = Replica(trial, strategy, self._index, seed, container)
        replica = self._replicas[container]
        replica.barrier.lost = self._lost
        replica.spec = trial  # the same but for factors that no graph depends on
        worker = Worker(replica, self._servers[trial.transport].target, images.of(seed, trial.matrix), limit_s)
        try:
            if self._index == CHIEF:
                return asdict(worker.lead(seed, CheckpointPlan.model_validate(plan) if plan else None))
            worker.follow(seed)
            return {}
        finally:
            worker.close()

    def answer_probe(self, host: str) -> network.Place:
        """Answer a probe of the network; only for a server. Return where."""
        return network.answer_one_probe(host, PROBE_LIMIT_S)

    def probe_network(self, places: list[network.Place]) -> list[network.Link] | None:
        """Probe the network to the servers, given where they answer; only for the chief."""
        return network.probe(places)

    def reset(self, container: str, transport: str) -> dict[str, Any]:
        """Discard what the trial has left on the servers; only for the chief, after all workers have ended."""
        import tensorflow as tf

        tf.compat.v1.Session.reset(self._servers[transport].target, [container])
        return {}


def main(job: Job, index: int, answers: TextIO) -> None:
    """Answer commands until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C, and ends this process
    commands: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    lost: set[int] = set()
    threading.Thread(target=_listen, args=(commands, lost), daemon=True).start()
    import_tensorflow()  # it takes seconds, and so the tasks of a cluster do it at the same time
    _answer(answers, {"ready": True})
    trainer = Trainer(job, index, lost)
    while True:
        command = commands.get()
        try:
            result = getattr(trainer, command.pop("do"))(**command)
        except Exception as error:  # the trial failed, which its record says; this process goes on
            if type(error).__name__ not in ERRORS:
                traceback.print_exc()
            _answer(answers, {"error": type(error).__name__, "message": _in_words(error)})
        else:
            _answer(answers, {"result": result})


def _listen(commands: queue.SimpleQueue[dict[str, Any]], lost: set[int]) -> None:
    """Pass on commands, and note at once which workers are lost. At the end of the input the process ends."""
    for line in sys.stdin:
        message = json.loads(line)
        if "lost" in message:
            lost.add(message["lost"])
        else:
            commands.put(message)
    os._exit(0)


def _in_words(error: Exception) -> str:
    """The message in a line, without the dump of a request that TensorFlow appends to some."""
    return " ".join(str(error).partition("goo.gle/debugproto")[0].split())[:500]


def _answer(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    own_output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    main(sys.argv[1], int(sys.argv[2]), own_output)  # type: ignore[arg-type]  # the driver gives a job
