"""Spools checked runs to the disk until they are stored, because they may not fit into memory."""

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
from tmflow.bundle.problems import Report
from tmflow.bundle.reader import Bundle
from tmflow.bundle.verify import Checker, Work
from tmflow.store.rows import IncomingRun, chunks, rows_of, weight

_FIRST_SHARED = IncomingRun._fields.index("origin")  # origin, spec and backend: many runs have the same objects
_REMEMBERED_BYTES = 16 << 20  # of packed shared objects; a study has about 1 MB


class Packed(NamedTuple):
    """Runs of a run file in builtin types; objects that runs share are replaced by consecutive numbers.

    objects: the new shared objects. starts_numbering: earlier numbers of the process become invalid.
    """

    process: int
    file_sha256: str
    n_runs: int
    starts_numbering: bool
    objects: bytes
    runs: bytes


def prepare_packing(bundle: Bundle, checker: Checker) -> Work[list[Packed]]:
    """Prepare work that checks run files and packs their runs."""
    hashes = {entry.path: entry.sha256 for entry in bundle.manifest}
    packer = _Packer()

    def pack(member: str) -> tuple[Report, list[Packed]]:
        report, sha256 = Report(), hashes[member]
        runs = (rows_of(read, where, sha256) for where, read in checker.runs(member, report))
        return report, [packer.pack(sha256, chunk) for chunk in chunks(runs, weight)]

    return pack


class _Packer:
    """Packs the runs of a process, one file after another."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        self._bytes = 0

    def pack(self, file_sha256: str, runs: list[IncomingRun]) -> Packed:
        starts_numbering = not self._numbers or self._bytes > _REMEMBERED_BYTES
        if starts_numbering:
            self._numbers.clear()
            self._bytes = 0
        objects: list[Any] = []
        plain = marshal.dumps([self._plain(run, objects) for run in runs])
        packed = pickle.dumps(objects)
        self._bytes += len(packed)
        return Packed(os.getpid(), file_sha256, len(runs), starts_numbering, packed, plain)

    def _plain(self, run: IncomingRun, objects: list[Any]) -> tuple[Any, ...]:
        backend = run.backend and (run.backend.kind, run.backend.name, run.backend.version, run.backend.config_sha256)
        shared = ((run.origin, run.origin), (run.spec, run.spec), (backend, run.backend))
        numbers = [self._number(key, value, objects) for key, value in shared]
        return *run[:_FIRST_SHARED], *numbers, *run[_FIRST_SHARED + len(shared) :]

    def _number(self, key: object, value: object, objects: list[Any]) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers)
            objects.append(value)
        return number


class Spool:
    """A file of packed runs in the order of appending; `n_runs`: number of runs by the hash of their file."""

    def __init__(self, file: IO[bytes]) -> None:
        self.n_runs = Counter[str]()
        self._file = file

    def append(self, lots: Iterable[Packed]) -> None:
        """Append packed runs."""
        for packed in lots:
            with writing(Path(tempfile.gettempdir())):
                pickle.dump(packed, self._file)
            self.n_runs[packed.file_sha256] += packed.n_runs
        with writing(Path(tempfile.gettempdir())):
            self._file.flush()

    def runs(self) -> Iterator[IncomingRun]:
        """Iterate over all runs; each call starts from the beginning."""
        self._file.seek(0)
        shared: dict[int, list[Any]] = {}
        for packed in self._packed():
            objects = shared[packed.process] = [] if packed.starts_numbering else shared[packed.process]
            objects += pickle.loads(packed.objects)
            for where, file, uid, sha256, origin, spec, backend, *rest in marshal.loads(packed.runs):
                yield IncomingRun(where, file, uid, sha256, objects[origin], objects[spec], objects[backend], *rest)

    def _packed(self) -> Iterator[Packed]:
        while True:
            try:
                yield pickle.load(self._file)
            except EOFError:
                return


@contextmanager
def open_spool() -> Iterator[Spool]:
    """Open a spool in a temporary file, which is removed at the end."""
    with tempfile.TemporaryFile(prefix="tmflow-") as file:
        yield Spool(file)
