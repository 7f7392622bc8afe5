"""A full disk: one sentence, nothing lost that was written, and the same command continues once there is space."""

from __future__ import annotations

import contextlib
import itertools
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Tmflow
from tests.support.sample_runs import SPEC, sample_runs
from tmflow.base.errors import BadInput
from tmflow.runfile import record
from tmflow.runner.journal import Journal, UnderWay
from tmflow.runner.supervisor import RoundJob, run_round
from tmflow.spec.trial import TrialSpec
from tmflow.store import engine, queries, schema
from tmflow.store.engine import open_reader

SIZE = 2 * 1024**2
SAYS = "No space left on device; what was written before is kept: make room, and run the same command again."


class SmallDisk:
    """A disk of 2 MiB, with a file that fills it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._ballast = root / "ballast"

    def fill(self, but: int = 0) -> None:
        """Fill the disk except for `but` bytes."""
        self.make_room()
        with contextlib.suppress(OSError), self._ballast.open("wb", buffering=0) as file:
            while file.write(b"x" * 4096):
                pass
        with self._ballast.open("r+b") as file:
            file.truncate(max(0, self._ballast.stat().st_size - but))

    def make_room(self) -> None:
        self._ballast.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    root = tmp_path / "disk"
    root.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(root)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode != 0:
        pytest.skip(f"this user may not mount a small disk: {done.stderr.strip()}")
    try:
        yield SmallDisk(root)
    finally:
        subprocess.run(["umount", "--lazy", str(root)], check=True)


def test_journal_and_run_file(disk: SmallDisk) -> None:
    first, second = sample_runs(rounds=1)[:2]
    journal = Journal(disk.root / "round-001.jsonl")
    journal.append(first)
    disk.fill()
    under_way = UnderWay(pid=1, warm_up=False, trials=[second])
    for write in (lambda: journal.append(second), lambda: journal.begin(under_way)):
        with pytest.raises(BadInput, match=rf"round-001\.jsonl\.(part|now) cannot be written: {SAYS}"):
            write()
    assert Journal(journal.run_file).runs == journal.runs == [first]

    disk.make_room()
    journal.append(second)
    disk.fill()
    with pytest.raises(BadInput, match=rf"round-001\.jsonl cannot be written: {SAYS}"):
        journal.finish()
    assert sorted(path.name for path in disk.root.iterdir()) == ["ballast", "round-001.jsonl.part"]
    assert Journal(journal.run_file).runs == [first, second]

    disk.make_room()
    journal.finish()
    assert list(record.read(journal.run_file)) == [first, second]


def job_of(folder: Path, points: list[TrialSpec], **changes: Any) -> RoundJob:
    fields = {"campaign": {"uid": "campaign-1", "created_at_utc": "2026-01-01T00:00:00Z"}, "trial_timeout_s": 60}
    experiment = sample_runs()[0].experiment
    return RoundJob.model_validate(
        {**fields, "experiment": experiment, "number": 1, "points": points, "run_file": folder / "round-001.jsonl"}
        | changes
    )


def native(**factors: Any) -> TrialSpec:
    return TrialSpec.model_validate(
        SPEC | {"driver": "native", "strategy": "lock", "threads": 1, "iterations": 40, "curve_points": 0} | factors
    )


def assert_round_has_no_room(job: RoundJob, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput, match=r"round 1 of fig_4_1 could not run; the line above says why"):
        run_round(job)
    said = capfd.readouterr().err
    assert re.search(rf"^tmflow: \S+round-001\.jsonl\.(part|now) cannot be written: {SAYS}$", said, re.MULTILINE), said
    assert "Traceback" not in said
    assert not job.run_file.exists()


def test_a_timed_round_goes_on_where_it_stopped(disk: SmallDisk, capfd: pytest.CaptureFixture[str]) -> None:
    points = [native(batch=batch) for batch in range(1, 13)]
    job = job_of(disk.root, points)
    disk.fill(but=40 * 1024)  # enough for some trials
    assert_round_has_no_room(job, capfd)
    kept = Journal(job.run_file).runs
    assert 0 < len(kept) < len(points)

    disk.make_room()
    run_round(job)
    runs = list(record.read(job.run_file))
    assert {run.spec.sha256 for run in runs} == {point.sha256 for point in points}
    assert len(runs) == len(points)
    assert {run.uid for run in kept} < {run.uid for run in runs}
    assert {run.uid for run in runs if not run.resumed} == {run.uid for run in kept}


def test_no_room_to_record_that_a_trial_took_too_long(disk: SmallDisk, capfd: pytest.CaptureFixture[str]) -> None:
    short, endless = native(), native(iterations=10_000_000, batch=100)
    jobs = (
        job_of(disk.root, [short, endless], trial_timeout_s=5, campaign={"uid": f"campaign-{n}", "created_at_utc": ""})
        for n in itertools.count()
    )
    job = next(job for job in jobs if job.ordered_trials()[0].spec == short)
    journal = Journal(job.run_file)

    def is_under_way(spec: TrialSpec) -> bool:
        note = journal.under_way()
        return note is not None and not note.warm_up and note.trials[0].spec == spec

    round_ended = threading.Event()

    def fill_during_the_second() -> None:
        while not (journal.path.exists() and journal.path.stat().st_size and is_under_way(endless)):
            if round_ended.wait(0.001):
                return
        disk.fill()

    filling = threading.Thread(target=fill_during_the_second)
    filling.start()
    try:
        assert_round_has_no_room(job, capfd)
    finally:
        round_ended.set()
        filling.join()
    assert [run.spec for run in Journal(job.run_file).runs] == [short]


@pytest.mark.deep
def test_ingest(disk: SmallDisk, tmp_path: Path, tmflow: Tmflow) -> None:
    path = disk.root / "study.db"
    url = engine.sqlite_url(path)
    small, large = tmp_path / "small.jsonl", tmp_path / "large.jsonl"
    record.write(small, sample_runs(rounds=1))
    record.write(large, sample_runs(rounds=40, campaign="campaign-2"))

    def ingest(file: Path) -> subprocess.CompletedProcess[str]:
        return tmflow("ingest", file, TMFLOW_DB_URL=f"sqlite:///{path}")

    disk.fill(but=16 * 1024)
    assert_full(ingest(small), path)
    disk.make_room()
    assert ingest(small).returncode == 0
    before = len(queries.runs(open_reader(url)))
    for room in (0, 64 * 1024, 256 * 1024):
        disk.fill(but=room)
        assert_full(ingest(large), path)
        assert len(queries.runs(open_reader(url))) == before
        assert schema.check(url).problems == ()
    disk.make_room()
    done = ingest(large)
    assert done.returncode == 0, done.stderr
    assert len(queries.runs(open_reader(url))) == before + len(sample_runs(rounds=40))
    assert schema.check(url).problems == ()


def assert_full(done: subprocess.CompletedProcess[str], path: Path) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert done.stderr == (
        f"tmflow: database {path} cannot grow because its disk is full; nothing was stored. Free some space and run "
        "the command again.\n"
    )
