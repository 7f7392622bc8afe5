"""The chief of a cluster whose tasks are started one by one: worker 0, which lets all begin and end.

It takes the reports of all tasks, and gives each its verdict: the training begins, or one sentence says why it does
not. During the training it watches all tasks: if one ends too early, or the network between them is cut, it ends.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from tmflow.base.errors import BadInput, Unsupported
from tmflow.platform.facts import display_name, platform_sha256
from tmflow.spec.trial import TrialSpec
from tmflow.training.cluster import network
from tmflow.training.cluster.checkpoint import CheckpointPlan, resume
from tmflow.training.cluster.mailbox import CHIEF_WORKER, FIRST_SERVER, Name, Words
from tmflow.training.cluster.member import ARRIVED, CONTAINER, LIMIT_S, TRAINED, Member, absence, say, trials
from tmflow.training.cluster.task import Trainer
from tmflow.training.data import TrialData
from tmflow.training.measurement import Measurement

VERSIONS = {"tmflow": "tmflow", "tensorflow": "TensorFlow", "ops": "the op library"}


def disagreement(reports: Mapping[Name, Words]) -> str | None:
    """What keeps these tasks from training together, from their reports; None if nothing does."""
    chief = reports[CHIEF_WORKER]
    for name, report in reports.items():
        for key, product in VERSIONS.items():
            if report["versions"][key] != (expected := chief["versions"][key]):
                return (
                    f"{name} has {product} {report['versions'][key]}, and {CHIEF_WORKER} has {expected}: "
                    "install the same on every host"
                )
        if report["addresses"] != chief["addresses"]:
            return f"{name} has other addresses of the tasks than {CHIEF_WORKER}: give every task the same file"
        if name.job == "worker" and report["factors"] != chief["factors"]:
            here, expected = report["factors"], chief["factors"]
            factor = next(factor for factor in {**expected, **here} if here.get(factor) != expected.get(factor))
            return (
                f"{name} has {factor} {here.get(factor)}, and {CHIEF_WORKER} has {expected.get(factor)}: "
                "start every worker with the same options"
            )
    return None


class Chief:
    """Worker 0: it lets all tasks begin and end, and trains, as a variant that runs one trial after a warm-up.

    plan: of the checkpoints of the trial, if there are any.
    """

    def __init__(self, member: Member, spec: TrialSpec, plan: CheckpointPlan | None = None) -> None:
        self._member, self._spec, self._plan = member, spec, plan
        self._trainer = Trainer(member.name.job, member.name.index, servers=member.servers)
        self._reports: dict[Name, Words] = {}
        self._links: list[network.Link] | None = None
        self._failure: Exception | None = None

    @property
    def places(self) -> dict[str, Any]:
        """What tells experiments of other hosts apart: the hosts of all tasks, and the platform of each of several."""
        platforms = {host: platform_sha256(facts) for host, facts in self._platforms.items()}
        return {"hosts": self.hosts} | ({"platforms": platforms} if len(platforms) > 1 else {})

    @property
    def hosts(self) -> dict[str, list[str]]:
        """The host of every server and worker, numbered, because a run is shared and tells no name of a network."""
        numbers, of = self._numbers, dict[str, list[str]](server=[], worker=[])
        for name in self._member.names:
            of["server" if name.job == "ps" else "worker"].append(numbers[self._reports[name]["host"]])
        return of

    @property
    def _numbers(self) -> dict[str, str]:
        """The numbered name of each host."""
        hosts = dict.fromkeys(self._reports[name]["host"] for name in self._member.names)
        return {host: f"host {number}" for number, host in enumerate(hosts, start=1)}

    @property
    def _platforms(self) -> dict[str, dict[str, Any]]:
        """The facts of the platform of each host."""
        return {self._numbers[report["host"]]: report["platform"] for report in self._reports.values()}

    def gather(self) -> None:
        """Wait until all tasks have reported, and let them begin.

        Raises Unsupported if a task does not come in time, and BadInput if tasks do not fit together; the others that
        came learn the same.
        """
        member, deadline = self._member, time.monotonic() + self._member.wait_s
        self._reports = {CHIEF_WORKER: member.report(self._spec)}
        while missing := [name for name in member.names if name not in self._reports]:
            say(f"waiting for {', '.join(map(str, missing))}.")
            try:
                report = member.mail.take(FIRST_SERVER, ARRIVED, max(deadline - time.monotonic(), 0))
            except TimeoutError:
                break
            except ConnectionError as error:
                raise Unsupported(f"{FIRST_SERVER} ended before the training began") from error
            name = Name(*report["name"])
            self._reports[name] = report
            member.tell(name, {"arrived": True})
        self._let_begin([FIRST_SERVER] if FIRST_SERVER in missing else missing)

    def _let_begin(self, missing: list[Name]) -> None:
        differ = disagreement(self._reports)
        absent = absence(missing, self._member.wait_s) if missing else None
        if differ:
            self._tell_all({"differ": differ})
            raise BadInput(f"{differ}.")
        if absent:
            self._tell_all({"absent": absent})
            raise Unsupported(absent)
        servers = [self._reports[name]["probe"] for name in self._member.names if name.job == "ps"]
        self._links = network.probe(servers)  # while all others wait
        self._tell_all({"begin": True})
        for name in self._others:
            answered = threading.Event()
            self._member.watch(name, answered.set)
            answered.wait()
        say("all tasks are up; training.")

    def run(self, spec: TrialSpec, trial_seed: int, data: TrialData) -> Measurement:
        """Train with all workers. Raises as the cluster driver; after an error the cluster trains no more.

        data: not used, because each worker reads the images itself.
        """
        checkpoint = resume(self._plan.file, spec) if self._plan else None
        began = time.monotonic()
        measured = self._train(spec, trial_seed, self._plan)
        self._member.end()
        self._tell_all({"done": True}, "worker")
        servers = [{"role": "server", "index": index} for index in range(len(self.hosts["server"]))]
        measured.processes = [*servers, *measured.processes]
        measured.environment = {"network": self._links}
        if len(platforms := self._platforms) > 1:
            measured.environment["hosts"] = {host: display_name(facts) for host, facts in sorted(platforms.items())}
            measured.phases = []  # a step's trace would have the clocks of several hosts
        for process in measured.processes:
            process["host"] = self.hosts[process["role"]][process["index"]]
        measured.setup_s = time.monotonic() - began - measured.loop_s - measured.evaluation_s
        if checkpoint:
            checkpoint.progress.add_to(measured)
        return measured

    def warm_up(self, data: TrialData, batch: int, workers: int) -> None:
        """Run and discard the first of `trials`; `batch` and `workers` are those of the spec."""
        first = next(trials(self._spec))
        self._train(first, first.seed, None)
        self._trainer.reset(CONTAINER, self._spec.transport)
        self._tell_all({"go on": True}, "worker")

    def _train(self, spec: TrialSpec, trial_seed: int, plan: CheckpointPlan | None) -> Measurement:
        """Train, and wait until all workers have ended."""
        if self._failure is not None:
            raise self._failure
        try:
            settings = plan.model_dump(mode="json") if plan else None
            measured = Measurement(**self._trainer.train(spec.factors(), trial_seed, CONTAINER, LIMIT_S, settings))
            for name in self._others:
                if name.job == "worker":
                    self._member.mail.take(CHIEF_WORKER, TRAINED, LIMIT_S)
        except Exception as error:
            self._failure = error
            raise
        return measured

    def close(self) -> None:
        """Tell the servers that the training is done. If it failed, the chief's own end tells everybody."""
        if self._failure is None:
            self._tell_all({"done": True}, "ps")

    @property
    def _others(self) -> list[Name]:
        """The other tasks that have come."""
        return [name for name in self._reports if name != CHIEF_WORKER]

    def _tell_all(self, words: Words, job: str = "") -> None:
        """Tell all other tasks, or those of one job; the first server last, as others may still await its answer."""
        for name in sorted(self._others, key=lambda name: name == FIRST_SERVER):
            if job in ("", name.job):
                self._member.tell(name, words)
