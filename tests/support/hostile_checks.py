"""Requirements on checking and importing possibly hostile bundles, for processes with bounded memory."""

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
from tmflow.store.engine import sqlite_url

SEED = 7
MORE_MEMORY = 300 << 20  # more than a process needs before its first check
LONGEST_S = 10  # of processor time, because the machine may be busy; a bundle takes a hundredth of a second
LONGEST_SENTENCE = 2000
# One mutant in so many is imported, among those with and without problems; one in so many of the stored ones is
# followed by a check of the complete database.
UNSOUND_IMPORTED, SOUND_IMPORTED, DATABASE_CHECKED = 10, 8, 64


class TooSlow(BaseException):
    """A bundle took longer than `LONGEST_S`; no tested code catches this."""


class Outcome(NamedTuple):
    """The outcome for a mutant; `wrong` lists the violated requirements in sentences."""

    kind: str
    sound: bool
    imported: bool
    wrong: list[str]


class World:
    """A valid bundle, a database that contains it, and one with other runs, in a folder of this process."""

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
    """The members of a small bundle with every kind of content; it is written to the folder."""
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
    """The outcomes for the mutants of these numbers, in a separate process that may use the folder."""
    own_world = world(folder)
    with bounded_memory(own_world.memory + MORE_MEMORY):
        return [_outcome(own_world, number) for number in numbers]


def in_bounds(path: str, folder: str) -> tuple[list[str], bool]:
    """The violated requirements of checking this file in a separate process, and whether the file was accepted."""
    try:
        with bounded_memory(world(folder).memory + MORE_MEMORY), bounded_time():
            found = verify(Path(path))
    except (Exception, TooSlow) as error:
        return [f"{type(error).__name__}: {error}"], False
    return [text for text in _told(found) if not is_sentence(text)], found.ok


@contextmanager
def bounded_memory(n_bytes: int) -> Iterator[None]:
    """Limit the address space of this process inside the block."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


@contextmanager
def bounded_time() -> Iterator[None]:
    """Raise `TooSlow` inside the block after `LONGEST_S` of processor time."""

    def stop(*_: Any) -> None:
        raise TooSlow

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def is_sentence(text: str) -> bool:
    """Whether the text is one printable line."""
    return text.isprintable() and text.endswith(".") and len(text) <= LONGEST_SENTENCE


def _outcome(own_world: World, number: int) -> Outcome:
    kind, data = mutant(own_world.good, SEED, number)
    own_world.bundle.write_bytes(data)
    try:
        with bounded_time():
            found = verify(own_world.bundle)
            imported = _is_one_of(number, SOUND_IMPORTED if found.ok else UNSOUND_IMPORTED)
            wrong = [f"no sentence: {text[:200]!r}" for text in _told(found) if not is_sentence(text)]
            if imported:
                wrong += _untouched(own_world, found)
            if imported and found.ok:
                wrong += _stored(own_world, found, _is_one_of(number, DATABASE_CHECKED))
    except (Exception, TooSlow) as error:
        return Outcome(kind, False, False, [f"mutant {number}, {kind}: {type(error).__name__}: {error}"])
    return Outcome(kind, found.ok, imported, [f"mutant {number}, {kind}: {sentence}" for sentence in wrong])


def _is_one_of(number: int, n: int) -> bool:
    """Whether this is the one of n mutants, of any kind, that is examined."""
    return Random(number).randrange(n) == 0


def _told(found: Report) -> Iterator[str]:
    yield from (problem.sentence for problem in found.problems)
    yield from (f"{name}." for name in found.platforms.values())


def _untouched(own_world: World, found: Report) -> Iterator[str]:
    """A bundle with errors, or in conflict with stored runs, leaves the database unchanged to the byte."""
    try:
        done = import_bundle(sqlite_url(own_world.full), own_world.bundle)
    except BadInput as error:
        if found.ok and isinstance(error, InvalidBundle):
            yield f"it is sound, but not for the import: {error}"
    else:
        if not found.ok:
            yield "it is not sound, and was imported"
        if done.runs_new or done.runs_known:
            own_world.full.write_bytes(own_world.bytes)
    log = own_world.full.with_name(f"{own_world.full.name}-wal")
    if own_world.full.read_bytes() != own_world.bytes or (log.exists() and log.stat().st_size):
        yield "it was not stored, and the database is another"
        own_world.full.write_bytes(own_world.bytes)


def _stored(own_world: World, found: Report, whole: bool) -> Iterator[str]:
    """A valid bundle is stored completely, next to other runs, and leaves a consistent database."""
    database = own_world.folder / "copy.db"
    shutil.copyfile(own_world.other, database)
    done = import_bundle(sqlite_url(database), own_world.bundle)
    if (done.runs_new, done.runs_known) != (found.runs, 0):
        yield f"{found.runs} runs are sound, and {done.runs_new} were stored"
    if whole:
        yield from schema.check(sqlite_url(database)).problems
