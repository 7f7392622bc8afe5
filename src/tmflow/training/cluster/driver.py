"""The cluster driver: servers and workers of TensorFlow's distributed runtime, as processes of this machine.

The processes are started once and serve all trials of a round, up to their numbers of servers and workers; starting one
imports TensorFlow, which takes seconds. They listen on the loopback interface. They end with this process.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from typing import Any

import psutil

from tmflow.base.canonical_json import sha256_of
from tmflow.base.errors import Unsupported
from tmflow.native import availability, loader
from tmflow.native.registry import ResolvedStrategy
from tmflow.platform.software import tensorflow_version
from tmflow.runtime import HPX_ADDRESS
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster.addresses import LOOPBACK, Addresses, Job, on_this_machine
from tmflow.training.cluster.barrier import CHIEF
from tmflow.training.cluster.checkpoint import CheckpointPlan, resume
from tmflow.training.cluster.network import Link
from tmflow.training.cluster.task import ERRORS
from tmflow.training.data import TrialData
from tmflow.training.measurement import Measurement, graph_key, warm_up_spec

WARM_UP_STEPS = 20
EVALUATED_IN_WARM_UP = 500
MEETING_LIMIT_S = 3600.0  # between two pauses; a trial's own time limit ends it earlier
HOST = "host 1"  # as a run names this machine
END_S = 10.0  # for a process to end after its input has
LOOK_S = 0.1  # between two looks at the servers


class ClusterFailed(RuntimeError):
    """A task of the cluster reported an error that is not the trial's, or the trial lost a worker."""


class TaskEnded(ClusterFailed):
    """The process of a task has ended."""


class Task:
    """A process of the cluster, from this side."""

    def __init__(self, job: Job, index: int) -> None:
        self.job, self.index = job, index
        command = [sys.executable, "-m", "tmflow.training.cluster.task", job, str(index)]
        # A trial with an executor of HPX may come before one with its transport, which needs HPX with a network.
        defaults = {"TF_CPP_MIN_LOG_LEVEL": "2", HPX_ADDRESS: LOOPBACK}
        environment = loader.loopback_only({**defaults, **os.environ})
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)

    def __str__(self) -> str:
        return f"{'server' if self.job == 'ps' else 'worker'} {self.index}"

    def tell(self, message: dict[str, Any]) -> None:
        """Send a line; one to a process that has ended is lost."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def answer(self) -> Any:
        """Wait for the next line. Raises what the task reports, and TaskEnded if it ends."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise TaskEnded(self.end_in_words())
        message = json.loads(line)
        if "error" in message:
            raise ERRORS.get(message["error"], ClusterFailed)(f"{self}: {message['message']}")
        return message.get("result")

    def end_in_words(self) -> str:
        """How the process ended."""
        code = self.process.wait()
        return f"{self} ended with code {code}" if code >= 0 else f"{self} was ended by {signal.Signals(-code).name}"

    def cpu_s(self) -> float:
        """The processor time that the process has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def end(self) -> None:
        """End the process: by the end of its input, or by force if that takes too long."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # closing sends what a process that has ended did not take
            self.process.stdin.close()
        try:
            self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Running servers and workers."""

    def __init__(self, servers: int, workers: int) -> None:
        self.servers = [Task("ps", index) for index in range(servers)]
        self.workers = [Task("worker", index) for index in range(workers)]
        self.addresses: dict[str, Addresses] = {}  # by transport
        try:
            self._wait_for_all()
            self._links = self._probe_network()
        except BaseException:
            self.close()
            raise

    @property
    def tasks(self) -> list[Task]:
        """All of them, servers first."""
        return [*self.servers, *self.workers]

    @property
    def is_complete(self) -> bool:
        """Whether no process has ended, as one may between two trials, for want of memory for example."""
        return all(task.process.poll() is None for task in self.tasks)

    def serve(self, transport: str) -> None:
        """Let all tasks call each other by this transport, besides those that they have."""
        if transport in self.addresses:
            return
        addresses = on_this_machine(len(self.servers), len(self.workers))
        for task in self.tasks:
            task.tell({"do": "serve", "addresses": addresses.model_dump(), "transport": transport})
        self._wait_for_all()
        self.addresses[transport] = addresses

    def _wait_for_all(self) -> None:
        """Wait for an answer of each task. Raises the first error."""
        with _answers(self.tasks) as answers:
            for answer in as_completed(answers):
                answer.result()

    def network(self, servers: int) -> list[Link] | None:
        """The network between the chief and the first servers, as it was when the cluster started; None if unknown."""
        return self._links and self._links[:servers]

    def _probe_network(self) -> list[Link] | None:
        places = [self._ask(server, {"do": "answer_probe", "host": LOOPBACK}) for server in self.servers]
        links: list[Link] | None = self._ask(self.workers[CHIEF], {"do": "probe_network", "places": places})
        return links

    @staticmethod
    def _ask(task: Task, command: dict[str, Any]) -> Any:
        task.tell(command)
        return task.answer()

    def train(self, spec: TrialSpec, command: dict[str, Any]) -> dict[str, Any]:
        """Let the first workers train a trial; return the chief's measurements.

        If a worker ends in mode async, the others go on, and then the trial fails. So it does in mode sync as long as
        there are backup workers; without, and in mode model_parallel, it fails at once. So it does if the chief or a
        server ends.
        """
        assert spec.backup_workers is not None, "a spec of this driver has it"
        workers, lost, measured = self.workers[: spec.threads], list[Task](), dict[str, Any]()
        bearable = spec.threads - 1 if spec.mode == "async" else spec.backup_workers
        for worker in workers:
            worker.tell(command)
        for worker, answer in self._answers_of(workers):
            try:
                measured |= answer.result()  # that of a worker that is not the chief is empty
            except TaskEnded:
                lost.append(worker)
                if worker.index == CHIEF or len(lost) > bearable:
                    raise
                workers[CHIEF].tell({"lost": worker.index})
        if lost:
            ends = ", ".join(worker.end_in_words() for worker in lost)
            done = sum(process["steps"] for process in measured["processes"])
            raise ClusterFailed(
                f"{ends}; the others went on, and finished {done} of {spec.iterations} steps with a test accuracy of "
                f"{measured['final_accuracy']:.4f}"
            )
        return measured

    def _answers_of(self, workers: Sequence[Task]) -> Iterator[tuple[Task, Future[Any]]]:
        """The answers of workers as they come. Raises TaskEnded at once if a server ends.

        Without its server, a worker may wait for ever, or report an error of TensorFlow that names no process.
        """
        with _answers(workers) as waiting:
            while waiting:
                done, _ = wait(waiting, LOOK_S, FIRST_COMPLETED)
                for server in self.servers:
                    if server.process.poll() is not None:
                        raise TaskEnded(server.end_in_words())
                for answer in done:
                    yield waiting.pop(answer), answer

    def close(self) -> None:
        """End all processes, workers first."""
        for task in reversed(self.tasks):
            task.end()


@contextmanager
def _answers(tasks: Sequence[Task]) -> Iterator[dict[Future[Any], Task]]:
    """The next answer of each task. After an error, some may never come."""
    pool = ThreadPoolExecutor(len(tasks))
    try:
        yield {pool.submit(task.answer): task for task in tasks}
    finally:
        pool.shutdown(wait=False)


class _Pool:
    """The cluster of this process, which is replaced by a larger one if a trial needs more processes."""

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        atexit.register(self.close)

    def of(self, servers: int, workers: int) -> Cluster:
        """A cluster with at least this many servers and workers, which are all running."""
        running = self._cluster
        if running is not None:
            if len(running.servers) >= servers and len(running.workers) >= workers and running.is_complete:
                return running
            servers, workers = max(servers, len(running.servers)), max(workers, len(running.workers))
            self.close()
        self._cluster = Cluster(servers, workers)
        return self._cluster

    def close(self) -> None:
        """End the cluster; the next trial starts another."""
        ending, self._cluster = self._cluster, None
        if ending is not None:
            ending.close()


POOL = _Pool()


class Variant:
    """Runs trials of one model and strategy on the cluster of this process, with checkpoints if there is a plan."""

    def __init__(
        self, spec: TrialSpec, strategy: ResolvedStrategy, max_workers: int, plan: CheckpointPlan | None = None
    ) -> None:
        if tensorflow_version() is None:
            raise Unsupported("TensorFlow is not installed, and the cluster driver needs it")
        if reason := availability.unsupported_reason(spec, strategy):
            raise Unsupported(reason)
        self._spec, self._max_workers, self._plan = spec, max_workers, plan

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train from fresh initial values or from the last checkpoint; the measurements are of the whole training.

        data: not used, because each worker reads the images itself. Raises as the session driver, ClusterFailed if a
        process ends, and BadInput if the checkpoint does not fit.
        """
        return self._run(spec, trial_seed, self._plan)

    def _run(self, spec: TrialSpec, trial_seed: int, plan: CheckpointPlan | None) -> Measurement:
        assert spec.servers is not None, "a spec of this driver has it"
        cluster = POOL.of(spec.servers, self._max_workers)
        servers, workers = cluster.servers[: spec.servers], cluster.workers[: spec.threads]
        container = sha256_of([graph_key(spec), spec.threads])[:16]
        command = {
            "do": "train", "spec": spec.factors(), "seed": trial_seed, "container": container,
            "limit_s": MEETING_LIMIT_S, "plan": plan.model_dump(mode="json") if plan else None,
        }  # fmt: skip
        checkpoint = resume(plan.file, spec) if plan else None
        try:
            cluster.serve(spec.transport)
            began, used = time.monotonic(), {str(task): task.cpu_s() for task in [*servers, *workers]}
            measured = Measurement(**cluster.train(spec, command))
            cpu_s = {str(task): task.cpu_s() - used[str(task)] for task in [*servers, *workers]}
            workers[CHIEF].tell({"do": "reset", "container": container, "transport": spec.transport})
            workers[CHIEF].answer()
        except BaseException:
            POOL.close()  # its processes may still be busy with this trial
            raise
        of_servers = [{"role": "server", "index": server.index} for server in servers]
        measured.processes = [*of_servers, *measured.processes]
        measured.environment = {"network": cluster.network(spec.servers)}
        for process in measured.processes:
            process["host"] = HOST
            process["cpu_s"] = cpu_s[f"{process['role']} {process['index']}"]
        measured.setup_s = time.monotonic() - began - measured.loop_s - measured.evaluation_s
        if checkpoint:
            checkpoint.progress.add_to(measured)
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Start the cluster, and run and discard a short trial."""
        spec = warm_up_spec(self._spec, workers, batch, WARM_UP_STEPS * workers, EVALUATED_IN_WARM_UP)
        self._run(spec, spec.seed, None)

    def close(self) -> None:
        """The cluster stays for the other variants; it ends with this process."""
