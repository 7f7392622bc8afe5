"""The problems that a check of a bundle finds, and the keys of the runs that it has seen."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np

from tmflow.base.text import printable
from tmflow.bundle.signature import Signature
from tmflow.bundle.timings import Timings

_BYTES = 16  # of a hash: in a million runs, the same by chance once in 10^26 bundles
_WORDS = 2


class Place(NamedTuple):
    """Where a run is."""

    member: str
    line: int


class Keys:
    """Of each run the hashes of its keys, in the order of the bundle."""

    def __init__(self) -> None:
        self._members: list[tuple[str, int]] = []  # each with the number of its first run
        self._lines = array("I")
        self._hashes = {"uid": bytearray(), "point": bytearray()}

    def begin(self, member: str) -> None:
        """The runs that are added next are of this member."""
        self._members.append((member, len(self._lines)))

    def add(self, line: int, uid: str, point: str) -> None:
        """A run of that line."""
        self._lines.append(line)
        for name, key in (("uid", uid), ("point", point)):
            self._hashes[name] += blake2b(key.encode(), digest_size=_BYTES).digest()

    def merge(self, its: Keys) -> None:
        """Add those of the members that come next."""
        n = len(self._lines)
        self._members += [(member, n + first) for member, first in its._members]
        self._lines += its._lines
        for name, hashes in its._hashes.items():
            self._hashes[name] += hashes

    def twice(self, name: str) -> Iterator[tuple[Place, Place]]:
        """Runs whose `name` is that of one before them, and that one."""
        words = np.frombuffer(self._hashes[name], dtype=np.uint64).reshape(-1, _WORDS)
        order = np.lexsort((words[:, 1], words[:, 0]))  # stable: of equal ones, the first comes first
        ordered = words[order]
        same = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        for at in same[np.argsort(order[same + 1])]:
            yield self._place(int(order[at + 1])), self._place(int(order[at]))

    def _place(self, run: int) -> Place:
        member, _ = self._members[bisect_right(self._members, run, key=lambda its: its[1]) - 1]
        return Place(member, self._lines[run])


MAX_PROBLEMS = 100
MAX_PLATFORMS = 10
MAX_UID, MAX_FIELD, MAX_TEXT = 64, 100, 500  # characters of each that are kept

Severity = Literal["error", "note"]


class Fault(NamedTuple):
    """What a rule has against a run: the field, in the words of the run file, and a sentence."""

    field: str | None
    text: str
    severity: Severity = "error"


class Problem(NamedTuple):
    """Something wrong in a bundle, and where. A note is worth knowing, but refuses nothing."""

    member: str | None
    line: int | None
    uid: str | None
    field: str | None
    text: str
    severity: Severity = "error"

    def printable(self) -> Problem:
        """The same without what a stranger's text could do to a terminal or a page, and not too long."""
        return self._replace(
            uid=self.uid and _short(self.uid, MAX_UID),
            field=self.field and _short(self.field, MAX_FIELD),
            text=_short(self.text, MAX_TEXT),
        )

    @property
    def sentence(self) -> str:
        """All of it in words."""
        line = self.line and f"line {self.line}"
        uid = self.uid and f"run {self.uid}"
        where = ", ".join(part for part in (self.member, line, uid, self.field) if part)
        return f"{where}: {self.text}" if where else self.text


@dataclass
class Findings:
    """Problems as they are found: the first `MAX_PROBLEMS` errors and as many notes are kept, all are counted.

    platforms: the names of those of the runs, by the hash of their facts. keys: what no two runs may have the same.
    timings: the times of all runs. signature: that of the bundle, if it was checked and is valid.
    """

    errors: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    omitted: int = 0
    runs: int = 0
    platforms: dict[str, str] = field(default_factory=dict)
    keys: Keys = field(default_factory=Keys)
    timings: Timings = field(default_factory=Timings)
    signature: Signature | None = None

    def add(self, problem: Problem) -> None:
        kept = self.errors if problem.severity == "error" else self.notes
        if len(kept) < MAX_PROBLEMS:
            kept.append(problem.printable())
        else:
            self.omitted += 1

    def note_platform(self, sha256: str, name: str) -> None:
        """A platform of the runs; of many, which should be one, the first are enough."""
        if len(self.platforms) < MAX_PLATFORMS:
            self.platforms[sha256] = _short(name, MAX_TEXT)

    def merge(self, its: Findings) -> None:
        """Add what was found in another member."""
        for problem in (*its.errors, *its.notes):
            self.add(problem)
        self.omitted += its.omitted
        self.runs += its.runs
        for sha256, name in its.platforms.items():
            self.note_platform(sha256, name)
        self.keys.merge(its.keys)
        self.timings.merge(its.timings)


@dataclass(frozen=True)
class Report:
    """Whether a bundle can be trusted as far as its own numbers tell.

    identity and version are None where the file is no bundle that can be read. platforms: their names, by the hash of
    their facts. omitted: problems that were found and are not listed. signature: None of one that is not signed, or
    whose signature is not valid or could not be checked.
    """

    identity: str | None
    version: int | None
    runs: int
    platforms: dict[str, str]
    problems: list[Problem]
    omitted: int
    signature: Signature | None

    @property
    def ok(self) -> bool:
        """Whether there is no error; notes there may be."""
        return all(problem.severity == "note" for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        """JSON types only."""
        return {
            "ok": self.ok,
            "identity": self.identity,
            "version": self.version,
            "runs": self.runs,
            "platforms": self.platforms,
            "problems": [problem._asdict() for problem in self.problems],
            "omitted": self.omitted,
            "signature": self.signature and asdict(self.signature),
        }


def _short(text: str, at_most: int) -> str:
    return printable(text if len(text) <= at_most else f"{text[: at_most - 3]}...")


def report(identity: str | None, version: int | None, findings: Findings) -> Report:
    """Errors before notes."""
    problems = [*findings.errors, *findings.notes]
    platforms = dict(findings.platforms)
    return Report(identity, version, findings.runs, platforms, problems, findings.omitted, findings.signature)
