"""How far a running study is, from what lies on disk: run files, journals, and the note of the trial under way.

Watching must not disturb what is timed: a look asks for the size of each file that is not complete, parses only lines
that are new since the last look, and sleeps in between. tests/unit/test_progress.py holds it to its cost.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from tmflow.study.plan import Plan, dataset_path

LOOK_EVERY_S = 2.0  # with a terminal to look at; a look takes about two milliseconds of one core
LINE_EVERY_S = 60.0  # without
FAILED = ("failed", "timeout", "invalid")

# Until so many seconds of the estimate are measured, what they took in truth says little of the rest.
TRUSTED_S = 60.0


@dataclass
class Round:
    """A round on disk. `by_status` counts its trials up to byte `_read` of the file that holds them."""

    experiment: str
    number: int
    run_file: Path
    by_status: Counter[str] = field(default_factory=Counter)
    complete: bool = False
    _read: int = 0
    _stale_note: float | None = None  # when the trial began that a killed process left its note of

    def __post_init__(self) -> None:
        note = self.under_way()
        self._stale_note = note and note[0]

    def look(self) -> None:
        """Count what is new."""
        path = self.run_file if self.run_file.exists() else self.run_file.with_name(self.run_file.name + ".part")
        if path == self.run_file or (path.exists() and path.stat().st_size < self._read):
            self.by_status, self._read = Counter(), 0
        if not path.exists():
            return
        with path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]  # a line without its end is being written
        self.by_status.update(json.loads(line)["status"] for line in whole.splitlines())
        self._read += len(whole)
        self.complete = path == self.run_file

    def under_way(self) -> tuple[float, dict[str, Any]] | None:
        """When the trial that runs now began, as a file's time, and its spec; not one that was under way before."""
        path = self.run_file.with_name(self.run_file.name + ".now")
        try:
            began = path.stat().st_mtime
            if began == self._stale_note:
                return None
            return began, json.loads(path.read_text(encoding="utf-8"))["spec"]
        except FileNotFoundError:
            return None


@dataclass(frozen=True)
class State:
    """How far the study is: trials in all, and those on disk; `left_s` is an estimate of what measuring still takes."""

    planned: int
    done: int
    failed: int
    left_s: float
    now: str

    def __str__(self) -> str:
        left = f"{_duration(self.left_s)} left, " if self.left_s else ""  # what follows the rounds is not estimated
        return f"{self.failed} failed, {left}{self.now}"


class Progress:
    """A study's progress, look by look."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._rounds = [
            Round(name, number, path)
            for name in plan.experiments
            for number, path in enumerate(plan.run_files(name), start=1)
        ]
        trials = {name: plan.trials(name) for name in plan.experiments}
        self.planned = sum(trials.values())
        self._estimate_s = sum(plan.estimated_s(name) for name in plan.experiments)
        self._trial_s = {name: plan.estimated_s(name) / n for name, n in trials.items() if n}
        self._measuring_since: float | None = None
        self._done_before_s = 0.0
        self._warned = False

    def look(self, now_s: float) -> State:
        """The state at `now_s`, of any clock that goes on evenly."""
        for round_ in self._rounds:
            if not round_.complete:
                round_.look()
        by_status = sum((round_.by_status for round_ in self._rounds), Counter[str]())
        done_s = sum(round_.by_status.total() * self._trial_s[round_.experiment] for round_ in self._rounds)
        now = self._under_way()
        if self._measuring_since is None:
            self._done_before_s = done_s
            self._measuring_since = now_s if now else None
        since = now_s if self._measuring_since is None else self._measuring_since
        measured_s = done_s - self._done_before_s
        slower = (now_s - since + TRUSTED_S) / (measured_s + TRUSTED_S) if measured_s else 1.0
        return State(
            planned=self.planned,
            done=by_status.total(),
            failed=sum(by_status[status] for status in FAILED),
            left_s=0.0 if self._measured() else max(self._estimate_s - done_s, 0.0) * slower,
            now=now or self._between_trials(),
        )

    def warning(self) -> str | None:
        """What the data step warned of, once: digits in the place of MNIST are not to be found out in the charts."""
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
        _, spec, its_round = max(notes, key=lambda note: note[0])  # others are of rounds that were killed
        threads = f"{spec['threads']} thread{'s' if spec['threads'] > 1 else ''}"
        return f"now {its_round.experiment}, round {its_round.number}: {spec['strategy']} with {threads}"

    def _measured(self) -> bool:
        return all(round_.complete for round_ in self._rounds)

    def _between_trials(self) -> str:
        if not (self._plan.results / "build" / "variants.json").exists():
            return "building the native strategies"
        if not dataset_path(self._plan.results).exists():
            return "getting the data"
        if self._measured():
            return "storing and drawing"
        return "starting a process"


def watch(child: subprocess.Popen[bytes], progress: Progress) -> int:
    """Show the progress until `child` ends; its exit code. A bar on a terminal, else a line now and then."""
    ended = os.pidfd_open(child.pid)  # Popen.wait with a timeout would wake twenty times a second
    shown = _Bar(progress.planned) if sys.stderr.isatty() else _Lines()
    try:
        while True:
            if warning := progress.warning():
                shown.say(f"tmflow: {warning}")
            shown.show(progress.look(time.monotonic()))
            if select.select([ended], [], [], shown.every_s)[0]:
                return child.wait()
    finally:
        shown.close()
        os.close(ended)


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
    minutes = round(seconds / 60)
    return f"about {minutes} min" if minutes < 120 else f"about {minutes // 60} h {minutes % 60} min"
