"""Progress of a running study, from the logs of the build and of Snakemake, its run files, journals and activity files.

Watching must not disturb timed work: a look checks the size of each incomplete file, parses only lines that are new
since the last look, and sleeps in between. tests/unit/workflow/test_progress.py limits its cost.
"""

from __future__ import annotations

import json
import os
import re
import select
import subprocess
import sys
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from tmflow.spec.trial import TrialSpec
from tmflow.study.plan import Plan, dataset_path

LOOK_EVERY_S = 2.0  # on a terminal; a look takes about two milliseconds of one core
LINE_EVERY_S = 60.0  # without a terminal
LONG_S = 60.0  # activities that take longer are shown with their duration
SHORT_S = 90.0  # the remaining time is shown in seconds below this
FAILED = ("failed", "timeout", "invalid")


@dataclass
class Round:
    """A round on disk. `by_status` counts the trials up to byte `_read` of its file."""

    experiment: str
    number: int
    run_file: Path
    by_status: Counter[str] = field(default_factory=Counter)
    complete: bool = False
    _read: int = 0

    def look(self) -> list[dict[str, Any]]:
        """Count the new runs and return them; once the round is complete, all its runs are new again.

        A round that ends during a look is counted by the next one: its journal is gone, and its run file is there.
        """
        with suppress(FileNotFoundError):
            return self._look()
        return []

    def _look(self) -> list[dict[str, Any]]:
        path = self.run_file if self.run_file.exists() else self.run_file.with_name(self.run_file.name + ".part")
        if path == self.run_file or (path.exists() and path.stat().st_size < self._read):
            self.by_status, self._read = Counter(), 0
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        complete_lines = new[: new.rfind(b"\n") + 1]  # a line without a line break is still being written
        runs = [json.loads(line) for line in complete_lines.splitlines()]
        self.by_status.update(run["status"] for run in runs)
        self._read += len(complete_lines)
        self.complete = path == self.run_file
        return runs

    def under_way(self) -> tuple[float, str] | None:
        """Start (as a file's time) and description of the current activity; None without a living process."""
        path = self.run_file.with_name(self.run_file.name + ".now")
        try:
            began = path.stat().st_mtime
            note = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        if not psutil.pid_exists(note.get("pid", -1)):  # an older tmflow recorded no pid
            return None
        spec = note["trials"][0]["spec"]
        with_threads = f"{spec['strategy']} with {spec['threads']} thread{'s' if spec['threads'] > 1 else ''}"
        return began, f"{'warming up ' if note['warm_up'] else ''}{with_threads}"


@dataclass(frozen=True)
class State:
    """The state of the study: trials planned and on disk; `left_s` estimates the remaining seconds of measuring."""

    planned: int
    done: int
    failed: int
    left_s: float
    now: str

    def __str__(self) -> str:
        if not self.left_s:  # steps after the rounds are not estimated
            return f"{self.failed} failed, {self.now}"
        left = f"{max(round(self.left_s), 1)} s" if self.left_s < SHORT_S else _minutes(self.left_s)
        return f"{self.failed} failed, about {left} left, {self.now}"


class Progress:
    """The progress of a study, for the runs of these experiments or of all."""

    def __init__(self, plan: Plan, experiments: Sequence[str] | None = None) -> None:
        self._plan = plan
        experiments = plan.experiments if experiments is None else experiments
        self._rounds = [
            Round(name, number, path)
            for name in experiments
            for number, path in enumerate(plan.run_files(name), start=1)
        ]
        trials = {name: plan.trials(name) for name in experiments}
        self.planned = sum(trials.values())
        self._estimate_s = sum(plan.estimated_s(name) for name in experiments)
        self._trial_s = {name: plan.estimated_s(name) / n for name, n in trials.items() if n}
        self._pace = Pace()
        self._paced = set(plan.costs.uids)  # the estimate is based on them, so they cannot show its error
        self._steps = Steps(plan.results)
        self._build = BuildProgress(plan.results)
        self._warned = False

    def look(self) -> State:
        """The state now."""
        for round_ in self._rounds:
            if not round_.complete:
                self._compare(round_.look())
        by_status = sum((round_.by_status for round_ in self._rounds), Counter[str]())
        is_measured = all(round_.complete for round_ in self._rounds)
        left_s = 0.0
        if not is_measured:
            done_s = sum(round_.by_status.total() * self._trial_s[round_.experiment] for round_ in self._rounds)
            left_s = max(self._estimate_s - done_s, 0.0) * self._pace.slower
        now = "starting a process"
        if not (self._plan.results / "build" / "variants.json").exists():
            files, build_left_s = self._build.look()
            now = f"building the native strategies{files}"
            left_s += build_left_s
        elif not dataset_path(self._plan.results).exists():
            now = "getting the data"
        elif is_measured:
            now = self._steps.look()
        failed = sum(by_status[status] for status in FAILED)
        return State(self.planned, by_status.total(), failed, left_s, self._under_way() or now)

    def _compare(self, runs: list[dict[str, Any]]) -> None:
        """Compare the time of each of these runs with its estimate, once."""
        for run in runs:
            if run["total_s"] is not None and run["uid"] not in self._paced:
                self._paced.add(run["uid"])
                spec = TrialSpec.model_construct(**run["spec"])
                self._pace.add(self._plan.costs.trial_s(spec), run["total_s"])

    def warning(self) -> str | None:
        """The warning of the data step, once: users must not learn only from the charts that digits replaced MNIST."""
        path = dataset_path(self._plan.results)
        if self._warned or not path.exists():
            return None
        self._warned = True
        warning: str | None = json.loads(path.read_text(encoding="utf-8"))["warning"]
        return warning

    def _under_way(self) -> str | None:
        notes = [(*note, r) for r in self._rounds if not r.complete and (note := r.under_way())]
        if not notes:
            return None
        began, what, round_ = max(notes, key=lambda note: note[0])
        lasts_s = time.time() - began
        for_long = f" for {_minutes(lasts_s)}" if lasts_s > LONG_S else ""
        return f"now {round_.experiment}, round {round_.number}: {what}{for_long}"


def watch(child: subprocess.Popen[bytes], progress: Progress) -> int:
    """Show the progress until `child` ends; return its exit code."""
    ended = os.pidfd_open(child.pid)  # Popen.wait with a timeout would wake twenty times a second
    try:
        watch_until(lambda within_s: bool(select.select([ended], [], [], within_s)[0]), progress)
    finally:
        os.close(ended)
    return child.wait()


def watch_until(ended: Callable[[float], bool], progress: Progress) -> None:
    """Show the progress until `ended` returns True; it waits up to the given seconds for the end.

    Shows a bar on a terminal, otherwise a line at intervals.
    """
    bar: tqdm[Any] | None = None
    if sys.stderr.isatty():
        layout = "{n_fmt}/{total_fmt} trials |{bar:20}| {desc}"
        bar = tqdm(total=progress.planned, bar_format=layout, leave=False, file=sys.stderr, dynamic_ncols=True)
    try:
        while True:
            if warning := progress.warning():
                tqdm.write(f"tmflow: {warning}", file=sys.stderr)
            state = progress.look()
            if bar is not None:
                bar.n = state.done
                bar.set_description_str(str(state))
            else:
                print(f"tmflow: {state.done} of {state.planned} trials done, {state}", file=sys.stderr, flush=True)
            if ended(LINE_EVERY_S if bar is None else LOOK_EVERY_S):
                return
    finally:
        if bar is not None:
            bar.close()


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


# Until trials with this many estimated seconds are done, their actual time says little about the rest.
TRUSTED_S = 30.0


class Pace:
    """The finished trials: the ratio of actual to estimated time, in order, and the estimate, of each."""

    def __init__(self) -> None:
        self._ratios, self._estimates_s = [1.0], [TRUSTED_S]

    def add(self, estimated_s: float, took_s: float) -> None:
        """Add a finished trial."""
        ratio = took_s / estimated_s
        place = bisect_left(self._ratios, ratio)
        self._ratios.insert(place, ratio)
        self._estimates_s.insert(place, estimated_s)

    @property
    def slower(self) -> float:
        """The ratio of actual to estimated time: the median, in which each trial is weighted by its estimate.

        So a trial that was estimated at a second and hung for minutes has the weight of a second.
        """
        weights = list(accumulate(self._estimates_s))
        return self._ratios[bisect_left(weights, weights[-1] / 2)]


_BEGUN = re.compile(r"^(?:local)?rule (\w+):$", re.MULTILINE)
_OF = re.compile(r"^    wildcards: (?:experiment|notebook)=([^,\s]+)", re.MULTILINE)
_DONE = re.compile(r"^\d+ of \d+ steps", re.MULTILINE)

_WORDS = {
    "ingest": "storing {}",
    "contributions": "storing the runs of others",
    "figures": "drawing {}",
    "notebook": "executing notebook {}",
    "report": "writing the report",
}
_TAIL = 30_000  # bytes that hold the last steps with the lists of their inputs


def snakemake_log(results: Path) -> Path:
    """The log of Snakemake's output in an invocation of the study."""
    return results / "logs" / "snakemake.log"


class Steps:
    """The steps of one call of Snakemake, which appends to the log."""

    def __init__(self, results: Path) -> None:
        self._log = snakemake_log(results)
        self._begins = self._log.stat().st_size if self._log.exists() else 0

    def look(self) -> str:
        """Describe the step that started last, and how many steps are done."""
        text = _read_tail(self._log, _TAIL, self._begins)
        begun = list(_BEGUN.finditer(text))
        if not begun or begun[-1][1] not in _WORDS:
            return "storing and drawing"
        of = _OF.search(text, begun[-1].end())
        doing = _WORDS[begun[-1][1]].format(of[1] if of else "")
        done = _DONE.findall(text)
        return f"{doing} ({done[-1]} done)" if done else doing


def _read_tail(log: Path, n_bytes: int, begins: int = 0) -> str:
    """The last bytes of a log, without those before byte `begins`; "" if there is no log."""
    if not log.exists():
        return ""
    with log.open("rb") as file:
        file.seek(max(begins, log.stat().st_size - n_bytes))
        return file.read().decode("utf-8", errors="replace")


_FILES = re.compile(r"^\[(\d+)/(\d+)\] ", re.MULTILINE)
_LAST_LINES = 4_000  # bytes at the end of the build's log


def build_log(results: Path) -> Path:
    """The log of the build: the output of its tools."""
    return results / "logs" / "build.log"


class BuildProgress:
    """The progress of a build that starts after this object is created; an older log is ignored."""

    def __init__(self, results: Path) -> None:
        self._log = build_log(results)
        self._made_s = time.time()
        self._first: tuple[float, int] | None = None  # time and number of files at the first count

    def look(self) -> tuple[str, float]:
        """How many files are built, and the estimated seconds for the others; "" and 0 while these are unknown."""
        if not self._log.exists() or self._log.stat().st_mtime < self._made_s:
            return "", 0.0
        counts = _FILES.findall(_read_tail(self._log, _LAST_LINES))
        if not counts:
            return "", 0.0
        done, total = map(int, counts[-1])
        now_s = time.monotonic()
        if self._first is None or self._first[1] > done:
            self._first = (now_s, done)
        began_s, before = self._first
        left_s = (total - done) * (now_s - began_s) / (done - before) if done > before else 0.0
        return f" ({done} of {total} files)", left_s
