"""Progress of a running study, from its run files, journals and activity files, and finally Snakemake's log.

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
from bisect import insort
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from tmflow.spec.trial import TrialSpec
from tmflow.study.plan import Plan, dataset_path
from tmflow.workflow.build_progress import BuildProgress

LOOK_EVERY_S = 2.0  # on a terminal; a look takes about two milliseconds of one core
LINE_EVERY_S = 60.0  # without a terminal
LONG_S = 60.0  # the duration of longer activities is shown
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
        """Count the new runs and return them; once the round is complete, all its runs are new again."""
        path = self.run_file if self.run_file.exists() else self.run_file.with_name(self.run_file.name + ".part")
        if path == self.run_file or (path.exists() and path.stat().st_size < self._read):
            self.by_status, self._read = Counter(), 0
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        complete_lines = new[: new.rfind(b"\n") + 1]  # a line without its end is being written
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
        remaining = (
            f"{_duration(self.left_s)} left, " if self.left_s else ""
        )  # steps after the rounds are not estimated
        return f"{self.failed} failed, {remaining}{self.now}"


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
        self._paced = set(plan.past_runs)  # they made the estimate, so they cannot show its error
        self._steps = Steps(plan.results)
        self._build = BuildProgress(plan.results)
        self._warned = False

    def look(self) -> State:
        """The state now."""
        for round_ in self._rounds:
            if not round_.complete:
                self._time(round_.look())
        by_status = sum((round_.by_status for round_ in self._rounds), Counter[str]())
        done_s = sum(round_.by_status.total() * self._trial_s[round_.experiment] for round_ in self._rounds)
        return State(
            planned=self.planned,
            done=by_status.total(),
            failed=sum(by_status[status] for status in FAILED),
            left_s=self._build_left_s()
            + (0.0 if self._measured() else max(self._estimate_s - done_s, 0.0) * self._pace.slower),
            now=self._under_way() or self._between_trials(),
        )

    def _time(self, runs: list[dict[str, Any]]) -> None:
        """Compare the time of each of these runs with its estimate, once."""
        for run in runs:
            if run["total_s"] is not None and run["uid"] not in self._paced:
                self._paced.add(run["uid"])
                spec = TrialSpec.model_construct(**run["spec"])
                self._pace.add(self._plan.estimated_trial_s(spec), run["total_s"])

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

    def _is_building(self) -> bool:
        return not (self._plan.results / "build" / "variants.json").exists()

    def _build_left_s(self) -> float:
        """Estimated remaining seconds of the build; 0 while unknown."""
        built = self._build.look() if self._is_building() else None
        return built.left_s or 0.0 if built else 0.0

    def _measured(self) -> bool:
        return all(round_.complete for round_ in self._rounds)

    def _between_trials(self) -> str:
        if self._is_building():
            built = self._build.look()
            return f"building the native strategies{f' ({built})' if built else ''}"
        if not dataset_path(self._plan.results).exists():
            return "getting the data"
        if self._measured():
            return self._steps.look()
        return "starting a process"


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
    shown = _Bar(progress.planned) if sys.stderr.isatty() else _Lines()
    try:
        while True:
            if warning := progress.warning():
                shown.say(f"tmflow: {warning}")
            shown.show(progress.look())
            if ended(shown.every_s):
                return
    finally:
        shown.close()


class _Bar:
    every_s = LOOK_EVERY_S

    def __init__(self, planned: int) -> None:
        layout = "{n_fmt}/{total_fmt} trials |{bar:20}| {desc}"
        self._bar = tqdm(total=planned, bar_format=layout, leave=False, file=sys.stderr, dynamic_ncols=True)

    def show(self, state: State) -> None:
        self._bar.n = state.done
        self._bar.set_description_str(str(state))

    def say(self, line: str) -> None:
        self._bar.write(line, file=sys.stderr)

    def close(self) -> None:
        self._bar.close()


class _Lines:
    every_s = LINE_EVERY_S

    def show(self, state: State) -> None:
        self.say(f"tmflow: {state.done} of {state.planned} trials done, {state}")

    def say(self, line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"about {max(round(seconds), 1)} s"
    return f"about {_minutes(seconds)}"


def _minutes(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


# Until trials with this many estimated seconds are done, their actual time says little about the rest.
TRUSTED_S = 30.0


class Pace:
    """The finished trials: the ratio of actual to estimated time, and the estimate, of each."""

    def __init__(self) -> None:
        self._ratios = [(1.0, TRUSTED_S)]

    def add(self, estimated_s: float, took_s: float) -> None:
        """Add a finished trial."""
        insort(self._ratios, (took_s / estimated_s, estimated_s))

    @property
    def slower(self) -> float:
        """The ratio of actual to estimated time: the median, in which each trial is weighted by its estimate.

        So a trial that was estimated at a second and hung for minutes has the weight of a second.
        """
        middle = sum(estimated_s for _, estimated_s in self._ratios) / 2
        until = accumulate(estimated_s for _, estimated_s in self._ratios)
        return next(ratio for (ratio, _), weight in zip(self._ratios, until, strict=True) if weight >= middle)


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
        text = self._tail()
        begun = list(_BEGUN.finditer(text))
        if not begun or begun[-1][1] not in _WORDS:
            return "storing and drawing"
        of = _OF.search(text, begun[-1].end())
        doing = _WORDS[begun[-1][1]].format(of[1] if of else "")
        done = _DONE.findall(text)
        return f"{doing} ({done[-1]} done)" if done else doing

    def _tail(self) -> str:
        if not self._log.exists():
            return ""
        with self._log.open("rb") as file:
            file.seek(max(self._begins, self._log.stat().st_size - _TAIL))
            return file.read().decode("utf-8", errors="replace")
