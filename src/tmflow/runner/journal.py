"""The journal of a round: its finished trials, so that an interrupted round keeps them.

The file is `<run file>.part`. Each trial is appended and fsynced. An incomplete last line is a write in progress, or a
write that was killed: readers ignore it, and the next append overwrites it. The trial or warm-up that is running is in
`<run file>.now`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Container
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tmflow.base.files import read_present, write_text, writing
from tmflow.runfile import record
from tmflow.runfile.record import Run


class UnderWay(BaseModel):
    """The current activity of a round's process: a trial, or the warm-up for some trials.

    `trials` holds these trials as failed runs, which are recorded if the process dies during the activity.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pid: int
    warm_up: bool
    trials: list[Run]


class Journal:
    """The finished trials of a round that has not ended. Reading a journal changes nothing on disk."""

    def __init__(self, run_file: Path) -> None:
        self.run_file = run_file
        self.path = run_file.with_name(run_file.name + ".part")
        self._now = run_file.with_name(run_file.name + ".now")
        data = read_present(self.path)
        self._end = data.rfind(b"\n") + 1
        lines = data[: self._end].decode("utf-8").splitlines()
        where = f"journal {self.path}, line"
        self.runs: list[Run] = [record.parse_line(line, f"{where} {number}") for number, line in enumerate(lines, 1)]

    def keep_only(self, keys: Container[tuple[str, int]]) -> None:
        """Drop trials with other keys (`Run.trial`).

        A round may resume after its dataset has changed from digits to MNIST, or with fewer repeats.
        """
        self.runs = [run for run in self.runs if run.trial in keys]

    def begin(self, under_way: UnderWay) -> None:
        """Record the current activity."""
        write_text(self._now, under_way.model_dump_json() + "\n")

    def under_way(self) -> UnderWay | None:
        """The current activity, or the last one before the process of the round died.

        None for a file in another version's format: the trial runs again, like any trial that is not in the journal.
        """
        try:
            return UnderWay.model_validate_json(self._now.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    def forget_under_way(self) -> None:
        """Record that no trial or warm-up is running."""
        self._now.unlink(missing_ok=True)

    def append(self, run: Run) -> None:
        """Add a finished trial, and clear the current activity; the trial is on disk when this returns.

        Raises BadInput if it cannot be written; the journal then keeps its earlier trials.
        """
        line = record.to_line(run).encode("utf-8")
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.touch()
            with self.path.open("r+b") as file:
                file.truncate(self._end)
                file.seek(self._end)
                file.write(line)
                file.flush()
                os.fsync(file.fileno())
        self._end += len(line)
        self.runs.append(run)
        self.forget_under_way()

    def finish(self) -> None:
        """Write all trials to the run file, in the planned order, and delete the journal."""
        record.write(self.run_file, sorted(self.runs, key=lambda run: run.ordinal))
        self.path.unlink(missing_ok=True)
        self.forget_under_way()


def set_aside(path: Path, run: Run) -> None:
    """Rename a run file or a journal after the campaign of its runs; its round is measured again."""
    path.rename(path.with_name(f"{path.name.partition('.')[0]}.{run.campaign.uid[:8]}.jsonl"))


def add_warm_up(run_file: Path, campaign_uid: str, seconds: float) -> None:
    """Record the seconds of a warm-up of the round. Raises BadInput if that cannot be written."""
    path = _warm_up_file(run_file)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"campaign": campaign_uid, "warm_up_s": round(seconds, 6)}) + "\n")


def warm_ups_s(run_file: Path) -> Counter[str]:
    """Total seconds of the warm-ups of the round, by the uid of the campaign; ignores an incomplete last line."""
    path = _warm_up_file(run_file)
    seconds: Counter[str] = Counter()
    if path.exists():
        *complete, _ = path.read_text(encoding="utf-8").split("\n")
        for line in map(json.loads, complete):
            seconds[line["campaign"]] += line["warm_up_s"]
    return seconds


def _warm_up_file(run_file: Path) -> Path:
    return run_file.with_suffix(".warm-ups")
