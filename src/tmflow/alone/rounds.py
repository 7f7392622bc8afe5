"""A round: its processes one after another, and what they tell as a run file."""

from __future__ import annotations

import itertools
import json
import os
import select
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tmflow.alone.plan import Experiment, Json, Point, study
from tmflow.base.clock import utc_now
from tmflow.base.errors import RoundFailed
from tmflow.base.files import write_text
from tmflow.base.locks import machine_to_itself
from tmflow.native import registry
from tmflow.platform.environment import environment_facts
from tmflow.platform.facts import platform_facts
from tmflow.platform.software import software
from tmflow.runner.order import order_seed, processes

# A kill may have come from outside, for want of memory for instance: a trial, or a warm-up, gets a second chance.
DEATHS = 2
START_LIMIT_S = 120.0  # to a process's first line, on a machine that is slow to load NumPy


@dataclass
class Round:
    """The points of an experiment, to be run once each."""

    campaign: Json
    experiment: Experiment
    number: int
    points: list[Point]
    run_file: Path
    _runs: dict[str, Json] = field(default_factory=dict)

    def run(self) -> None:
        """Measure it and write its run file, whole, unless that is there; raises RoundFailed where a process cannot."""
        with machine_to_itself():
            if self.run_file.exists():  # another process has measured it, while this one waited
                return
            seed = order_seed(self.campaign["uid"], self.experiment.reference["definition_sha256"], self.number)
            in_order = processes(self.points, seed, lambda point: point.environment)
            for points in in_order:
                self._run_all(points)
        shared = {"order_seed": seed, **_facts()}
        in_a_row = enumerate(itertools.chain(*in_order))
        lines = (json.dumps(self._line(*numbered, shared), sort_keys=True, allow_nan=False) for numbered in in_a_row)
        write_text(self.run_file, "".join(f"{line}\n" for line in lines))

    def statuses(self) -> Counter[str]:
        """How many of its trials ended how."""
        return Counter(run["status"] for run in self._runs.values())

    def _run_all(self, points: list[Point]) -> None:
        """In a process, and in another one what a trial left over that hung or killed it."""
        deaths: Counter[str] = Counter()
        while todo := [point for point in points if point.sha256 not in self._runs]:
            ended = self._process(todo)
            if ended is None:
                continue
            under_way = str(ended.points)
            deaths[under_way] += 1
            if ended.status == "failed" and deaths[under_way] < DEATHS:
                continue
            for sha256 in ended.points:
                told = {"status": ended.status, "reason": ended.reason, "started_at_utc": utc_now()}
                self._runs[sha256] = told

    def _process(self, points: list[Point]) -> Ended | None:
        """Run points in a process; None if it ended well. Raises RoundFailed if it ended for no trial's sake."""
        limit_s = self.experiment.trial_timeout_s
        under_way: list[str] = []
        where = ""
        try:
            with _started(self._job(points), points[0].environment) as process:
                for line in _lines(process, limit_s):
                    told = json.loads(line)
                    if "done" in told:
                        self._runs[told.pop("done")] = told
                    under_way, where = told.get("begun", []), "its warm-up " if told.get("warm_up") else ""
        except TimeoutError:
            if not under_way:
                raise RoundFailed(f"a process of round {self.number} of {self.experiment.name} hangs.") from None
            return Ended(under_way, "timeout", f"{where}took longer than {limit_s:g} s")
        code = process.returncode
        if code < 0 and under_way:
            return Ended(under_way, "failed", f"{where or 'its process '}was ended by {signal.Signals(-code).name}")
        if code != 0:
            name = self.experiment.name
            raise RoundFailed(f"a process of round {self.number} of {name} ended with code {code}, and says above why.")
        return None

    def _job(self, points: list[Point]) -> str:
        chosen = [point.sha256 for point in points]
        its = {"experiment": self.experiment.name, "scale": self.experiment.scale, "number": self.number}
        return json.dumps({**its, "points": chosen})

    def _line(self, ordinal: int, point: Point, shared: Json) -> Json:
        """A run, as `runfile.Run` has it."""
        return {
            "uid": str(uuid.uuid4()),
            "campaign": self.campaign,
            "experiment": self.experiment.reference,
            "round": self.number,
            "ordinal": ordinal,
            "trial_seed": point.spec.seed + self.number - 1,
            "resumed": False,
            "spec": point.factors,
            "dataset_sha256": study().dataset_sha256,
            "evidence": point.evidence,
            "time_domain": "wall",
            "backend": point.backend,
            **shared,
            **self._runs[point.sha256],
        }


class Ended(NamedTuple):
    """How a process ended that did not end well, and the points whose trial or warm-up was under way."""

    points: list[str]
    status: str
    reason: str


@contextmanager
def _started(job: str, needed: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """The process of a job, in the environment that its points need; it does not outlive the block."""
    command = [sys.executable, "-m", "tmflow.alone.process", job]
    with subprocess.Popen(command, env={**os.environ, **needed}, stdout=subprocess.PIPE) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise


def _lines(process: subprocess.Popen[bytes], limit_s: float) -> Iterator[bytes]:
    """The lines that a process prints. Raises TimeoutError where one takes longer than the limit, or the first one
    longer than START_LIMIT_S.
    """
    assert process.stdout is not None, "it was started with a pipe"
    handle, data, patience_s = process.stdout.fileno(), b"", START_LIMIT_S
    while select.select([handle], [], [], patience_s)[0]:
        piece = os.read(handle, 1 << 16)
        if not piece:
            return
        *lines, data = (data + piece).split(b"\n")
        yield from lines
        patience_s = limit_s
    raise TimeoutError


def _facts() -> Json:
    """What every run says about machine and software."""
    build = registry.build_info()
    return {
        "platform": platform_facts(),
        "environment": environment_facts(registry.tm_probe()),
        "software": software(compiler=build.compiler, cflags=build.cflags, lock="native.txt"),
    }
