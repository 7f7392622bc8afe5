"""Runs that are checked and not stored yet, on the disk: there may be more than fit into memory."""

from __future__ import annotations

import marshal
import os
import pickle
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from tmflow.base.files import writing
from tmflow.bundle.checker import Checker
from tmflow.bundle.parallel import Work
from tmflow.bundle.problems import Findings
from tmflow.bundle.reader import Bundle
from tmflow.store import dedup
from tmflow.store.rows import IncomingRun, rows_of, weight

_FIRST_SHARED = IncomingRun._fields.index("origin")  # origin, spec and backend: many runs have the same objects
_REMEMBERED_BYTES = 16 << 20  # of these objects, packed; those of a study have one


class Packed(NamedTuple):
    """Some runs of a run file, of builtin types. Objects that they share have numbers, in the order of their coming.

    `objects` are those that came with these runs; where it `begins_anew`, the numbers of before mean nothing more.
    """

    process: int
    file_sha256: str
    n_runs: int
    begins_anew: bool
    objects: bytes
    runs: bytes


def packing(bundle: Bundle, checker: Checker) -> Work[list[Packed]]:
    """Packs the runs of a run file while it is checked."""
    hashes = {entry.path: entry.sha256 for entry in bundle.manifest}
    packer = _Packer()

    def pack(member: str) -> tuple[Findings, list[Packed]]:
        findings, sha256 = Findings(), hashes[member]
        runs = (rows_of(read, where, sha256) for where, read in checker.runs(member, findings))
        return findings, [packer.pack(sha256, chunk) for chunk in dedup.chunks(runs, weight)]

    return pack


class _Packer:
    """Packs the runs that a process checks, one file after another."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._bytes = 0

    def pack(self, file_sha256: str, runs: list[IncomingRun]) -> Packed:
        begins_anew = not self._numbers or self._bytes > _REMEMBERED_BYTES
        if begins_anew:
            self._numbers.clear()
            self._bytes = 0
        objects: list[Any] = []
        plain = marshal.dumps([self._plain(run, objects) for run in runs])
        packed = pickle.dumps(objects)
        self._bytes += len(packed)
        return Packed(os.getpid(), file_sha256, len(runs), begins_anew, packed, plain)

    def _plain(self, run: IncomingRun, objects: list[Any]) -> tuple[Any, ...]:
        backend = run.backend and (run.backend.kind, run.backend.name, run.backend.version, run.backend.config_sha256)
        shared = ((run.origin, run.origin), (run.spec, run.spec), (backend, run.backend))
        numbers = [self._number(key, its, objects) for key, its in shared]
        return *run[:_FIRST_SHARED], *numbers, *run[_FIRST_SHARED + len(shared) :]

    def _number(self, key: object, its: object, objects: list[Any]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            objects.append(its)
        return number


class Aside:
    """Runs in the order in which they were laid aside; `n_runs` of each file, by its hash."""

    def __init__(self, file: IO[bytes]) -> None:
        self.n_runs = Counter[str]()
        self._file = file

    def lay(self, lots: Iterable[Packed]) -> None:
        """Keep runs."""
        for packed in lots:
            with writing(Path(tempfile.gettempdir())):
                pickle.dump(packed, self._file)
            self.n_runs[packed.file_sha256] += packed.n_runs
        with writing(Path(tempfile.gettempdir())):
            self._file.flush()

    def runs(self) -> Iterator[IncomingRun]:
        """All of them, once more at each call."""
        self._file.seek(0)
        shared: dict[int, list[Any]] = {}
        for packed in self._packed():
            its = shared[packed.process] = [] if packed.begins_anew else shared[packed.process]
            its += pickle.loads(packed.objects)
            for where, file, uid, sha256, origin, spec, backend, *rest in marshal.loads(packed.runs):
                yield IncomingRun(where, file, uid, sha256, its[origin], its[spec], its[backend], *rest)

    def _packed(self) -> Iterator[Packed]:
        while True:
            try:
                yield pickle.load(self._file)
            except EOFError:
                return


@contextmanager
def aside() -> Iterator[Aside]:
    """Room in the folder for temporary files, which is gone at the end."""
    with tempfile.TemporaryFile(prefix="tmflow-") as file:
        yield Aside(file)
