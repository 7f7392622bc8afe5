"""The journal of a round: trials as they finish, so that an interrupted round keeps them.

It stands beside the run file under the name `<run file>.part`. Each trial is appended and fsynced. A torn last line is
a write in progress, or the trace of a kill during one: readers leave it out, and the next append overwrites it. What
is under way, a trial or the warm-up of some, stands in `<run file>.now`.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from tmflow.base.files import write_text, writing
from tmflow.runfile import record
from tmflow.runfile.record import Run
from tmflow.spec.trial import TrialSpec


class UnderWay(BaseModel):
    """What the process of a round is doing: a trial, or the warm-up of some.

    `trials` are these trials as the failed runs that they are if it dies there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    pid: int
    warm_up: bool
    trials: list[Run]


class Journal:
    """The finished trials of a round that has not ended. Reading one changes nothing on disk."""

    def __init__(self, run_file: Path) -> None:
        self.run_file = run_file
        self.path = run_file.with_name(run_file.name + ".part")
        self._now = run_file.with_name(run_file.name + ".now")
        data = self.path.read_bytes() if self.path.exists() else b""
        self._end = data.rfind(b"\n") + 1
        lines = data[: self._end].decode("utf-8").splitlines()
        where = f"journal {self.path}, line"
        self.runs: list[Run] = [record.parse_line(line, f"{where} {number}") for number, line in enumerate(lines, 1)]

    def keep_only(self, points: Iterable[TrialSpec]) -> None:
        """Forget trials of other points: a round may be resumed after its dataset has changed from digits to MNIST."""
        wanted = {point.sha256 for point in points}
        self.runs = [run for run in self.runs if run.spec.sha256 in wanted]

    def begin(self, under_way: UnderWay) -> None:
        """Note what is under way."""
        write_text(self._now, under_way.model_dump_json() + "\n")

    def under_way(self) -> UnderWay | None:
        """What is under way, or was when the process of the round died.

        A note in another version's words tells nothing: the trial is run again, as any that is not in the journal.
        """
        try:
            return UnderWay.model_validate_json(self._now.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValidationError):
            return None

    def forget_under_way(self) -> None:
        """Nothing is under way any more."""
        self._now.unlink(missing_ok=True)

    def append(self, run: Run) -> None:
        """Add a finished trial; it is on disk when this returns, and nothing is under way.

        Raises BadInput where it cannot be written; what the journal held before, it still holds.
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
        """Make the run file of all trials, in the order in which they were planned; the journal goes."""
        record.write(self.run_file, sorted(self.runs, key=lambda run: run.ordinal))
        self.path.unlink(missing_ok=True)
        self.forget_under_way()


def set_aside(path: Path, run: Run) -> None:
    """Rename a run file or a journal after the campaign of its runs; its round is measured again."""
    path.rename(path.with_name(f"{path.name.partition('.')[0]}.{run.campaign.uid[:8]}.jsonl"))


def note(run_file: Path, campaign_uid: str, seconds: float) -> None:
    """A warm-up of the round took so many seconds. Raises BadInput where that cannot be written."""
    path = _beside(run_file)
    with writing(path), path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"campaign": campaign_uid, "warm_up_s": round(seconds, 6)}) + "\n")


def noted_s(run_file: Path) -> Counter[str]:
    """Seconds of all warm-ups of the round, by the uid of the campaign; a line cut off by a kill does not count."""
    path = _beside(run_file)
    seconds: Counter[str] = Counter()
    if path.exists():
        *whole, _ = path.read_text(encoding="utf-8").split("\n")
        for line in map(json.loads, whole):
            seconds[line["campaign"]] += line["warm_up_s"]
    return seconds


def _beside(run_file: Path) -> Path:
    return run_file.with_suffix(".warm-ups")
