"""What must hold when a bundle that may be hostile is checked and imported: for processes that have bounded memory."""

from __future__ import annotations

import os
import resource
import shutil
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.support.mutations import mutant
from tests.support.repacked import Members, good_members
from tests.support.sample_bundles import sample_bundle
from tests.support.sample_runs import EMULATED, FULL, FUSED, sample_runs
from tmflow.base.errors import BadInput
from tmflow.bundle.problems import Report
from tmflow.bundle.verify import verify
from tmflow.contributions.importer import InvalidBundle, import_bundle
from tmflow.store import schema
from tmflow.store.url import sqlite_url

SEED = 7
MORE_MEMORY = 300 << 20  # than a process has that has checked nothing yet
LONGEST_S = 10  # of processor time, for the machine may have other things to do; a bundle takes a hundredth of a second
LONGEST_SENTENCE = 2000
# One mutant of so many is imported, where its check found something wrong and where it did not; and of those that were
# stored, the whole database is checked after one of so many.
UNSOUND_IMPORTED, SOUND_IMPORTED, DATABASE_CHECKED = 10, 8, 64


class TooSlow(BaseException):
    """A bundle took longer than `LONGEST_S`; no code that is tested catches it."""


class Outcome(NamedTuple):
    """What came of a mutant; `wrong` is what is wrong with that, in sentences."""

    kind: str
    sound: bool
    imported: bool
    wrong: list[str]


class World:
    """A good bundle, a database that holds it, and one that holds other runs; in a folder of this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.good = good_bundle(folder / "good")
        self.bundle = folder / "mutant.zip"
        self.full, self.other = folder / "full.db", folder / "other.db"
        import_bundle(sqlite_url(self.full), folder / "good" / "bundle.zip")
        runs = sample_runs(("another",), ("tf_lock",), (1,), 1, campaign="another")
        import_bundle(sqlite_url(self.other), sample_bundle(folder / "another", runs))
        self.bytes = self.full.read_bytes()
        self.memory = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def good_bundle(folder: Path) -> Members:
    """What is in a small bundle that has something of everything; it lies in the folder."""
    results = folder / "results"
    (results / "logs" / "study").mkdir(parents=True)
    (results / "logs" / "study" / "round-001.log").write_text("trial 1 of 9\n")
    (results / "runs" / "full").mkdir(parents=True)
    (results / "runs" / "full" / "campaign.json").write_text('{"uid": "campaign-1", "rounds": {"fig_4_1": 2}}')
    runs = [
        *sample_runs(("fig_4_1",), ("tf_lock", "stm", EMULATED), (2,), 2),
        *sample_runs(("reads",), ("block_stm", FUSED, "htm"), (1,), 1, unsupported=("htm",), **FULL),
    ]
    return good_members(sample_bundle(folder, runs)) | {"config.yaml": b"seed: 7\n"}


@cache
def world(folder: str) -> World:
    """The world of this process, within the folder."""
    return World(Path(folder) / str(os.getpid()))


def outcomes(numbers: Iterable[int], folder: str) -> list[Outcome]:
    """What comes of the mutants of these numbers in a process of its own, which may work in the folder."""
    its = world(folder)
    with bounded_memory(its.memory + MORE_MEMORY):
        return [_outcome(its, number) for number in numbers]


def in_bounds(path: str, folder: str) -> tuple[list[str], bool]:
    """What is wrong with how this file is checked in a process of its own, and whether it was found sound."""
    try:
        with bounded_memory(world(folder).memory + MORE_MEMORY), bounded_time():
            found = verify(Path(path))
    except (Exception, TooSlow) as error:
        return [f"{type(error).__name__}: {error}"], False
    return [text for text in _told(found) if not is_sentence(text)], found.ok


@contextmanager
def bounded_memory(n_bytes: int) -> Iterator[None]:
    """Inside, this process has no more addresses than that."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def bounded_time() -> Iterator[None]:
    """Inside, `TooSlow` is raised after `LONGEST_S` of this process's time on a processor."""

    def stop(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def is_sentence(text: str) -> bool:
    """One that can be printed in a line."""
    return text.isprintable() and text.endswith(".") and len(text) <= LONGEST_SENTENCE


def _outcome(its: World, number: int) -> Outcome:
    kind, data = mutant(its.good, SEED, number)
    its.bundle.write_bytes(data)
    try:
        with bounded_time():
            found = verify(its.bundle)
            imported = _is_one_of(number, SOUND_IMPORTED if found.ok else UNSOUND_IMPORTED)
            wrong = [f"no sentence: {text[:200]!r}" for text in _told(found) if not is_sentence(text)]
            if imported:
                wrong += _untouched(its, found)
            if imported and found.ok:
                wrong += _stored(its, found, _is_one_of(number, DATABASE_CHECKED))
    except (Exception, TooSlow) as error:
        return Outcome(kind, False, False, [f"mutant {number}, {kind}: {type(error).__name__}: {error}"])
    return Outcome(kind, found.ok, imported, [f"mutant {number}, {kind}: {sentence}" for sentence in wrong])


def _is_one_of(number: int, n: int) -> bool:
    """Whether it is the one of n mutants, whatever their kinds, that is looked at."""
    return Random(number).randrange(n) == 0


def _told(found: Report) -> Iterator[str]:
    yield from (problem.sentence for problem in found.problems)
    yield from (f"{name}." for name in found.platforms.values())


def _untouched(its: World, found: Report) -> Iterator[str]:
    """A bundle that is not sound, or differs from what is stored, leaves the database as it was, to the byte."""
    try:
        done = import_bundle(sqlite_url(its.full), its.bundle)
    except BadInput as error:
        if found.ok and isinstance(error, InvalidBundle):
            yield f"it is sound, but not for the import: {error}"
    else:
        if not found.ok:
            yield "it is not sound, and was imported"
        if done.runs_new or done.runs_known:
            its.full.write_bytes(its.bytes)
    log = its.full.with_name(f"{its.full.name}-wal")
    if its.full.read_bytes() != its.bytes or (log.exists() and log.stat().st_size):
        yield "it was not stored, and the database is another"
        its.full.write_bytes(its.bytes)


def _stored(its: World, found: Report, whole: bool) -> Iterator[str]:
    """A bundle that is sound is stored wholly, beside others', and leaves a database that agrees with itself."""
    database = its.folder / "copy.db"
    shutil.copyfile(its.other, database)
    done = import_bundle(sqlite_url(database), its.bundle)
    if (done.runs_new, done.runs_known) != (found.runs, 0):
        yield f"{found.runs} runs are sound, and {done.runs_new} were stored"
    if whole:
        yield from schema.check(sqlite_url(database)).problems
