"""The problems that the check of a bundle finds, and the keys of its runs."""

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

_BYTES = 16  # bytes of a hash: a chance collision among a million runs occurs once in 10^26 bundles
_WORDS = 2


class Place(NamedTuple):
    """The position of a run."""

    member: str
    line: int


class Keys:
    """The hashes of the keys of all runs, in the order of the bundle."""

    def __init__(self) -> None:
        self._members: list[tuple[str, int]] = []  # each with the number of its first run
        self._lines = array("I")
        self._hashes = {"uid": bytearray(), "point": bytearray()}

    def begin(self, member: str) -> None:
        """Start a member: the runs added next belong to it."""
        self._members.append((member, len(self._lines)))

    def add(self, line: int, uid: str, point: str) -> None:
        """Add the run of a line."""
        self._lines.append(line)
        for name, key in (("uid", uid), ("point", point)):
            self._hashes[name] += blake2b(key.encode(), digest_size=_BYTES).digest()

    def merge(self, others: Keys) -> None:
        """Append the keys of the following members."""
        n = len(self._lines)
        self._members += [(member, n + first) for member, first in others._members]
        self._lines += others._lines
        for name, hashes in others._hashes.items():
            self._hashes[name] += hashes

    def duplicates(self, name: str) -> Iterator[tuple[Place, Place]]:
        """Yield the places of each run with a duplicate key `name`, and of the run before it with the same key."""
        words = np.frombuffer(self._hashes[name], dtype=np.uint64).reshape(-1, _WORDS)
        order = np.lexsort((words[:, 1], words[:, 0]))  # stable: equal keys keep their order
        ordered = words[order]
        same = np.flatnonzero((ordered[1:] == ordered[:-1]).all(axis=1))
        for at in same[np.argsort(order[same + 1])]:
            yield self._place(int(order[at + 1])), self._place(int(order[at]))

    def _place(self, run: int) -> Place:
        member, _ = self._members[bisect_right(self._members, run, key=lambda item: item[1]) - 1]
        return Place(member, self._lines[run])


MAX_PROBLEMS = 100
MAX_PLATFORMS = 10
MAX_UID, MAX_FIELD, MAX_TEXT = 64, 100, 500  # characters kept of each

Severity = Literal["error", "note"]


class Fault(NamedTuple):
    """A violation of a rule: the field as named in the run file, and a sentence."""

    field: str | None
    text: str
    severity: Severity = "error"


class Problem(NamedTuple):
    """A problem of a bundle and its place. A note informs, but does not reject the bundle."""

    member: str | None
    line: int | None
    uid: str | None
    field: str | None
    text: str
    severity: Severity = "error"

    def printable(self) -> Problem:
        """The problem with untrusted text escaped and shortened."""
        return self._replace(
            uid=self.uid and _short(self.uid, MAX_UID),
            field=self.field and _short(self.field, MAX_FIELD),
            text=_short(self.text, MAX_TEXT),
        )

    @property
    def sentence(self) -> str:
        """The problem as a sentence."""
        line = self.line and f"line {self.line}"
        uid = self.uid and f"run {self.uid}"
        where = ", ".join(part for part in (self.member, line, uid, self.field) if part)
        return f"{where}: {self.text}" if where else self.text


@dataclass
class Findings:
    """Collects problems: the first `MAX_PROBLEMS` errors and as many notes are kept, all are counted.

    platforms: the names of the runs' platforms, by the hash of their facts. keys: the keys that identify runs.
    timings: the times of all runs. signature: the bundle's signature, if it was checked and is valid.
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
        """Add a platform of the runs; there should be one, so only the first few are kept."""
        if len(self.platforms) < MAX_PLATFORMS:
            self.platforms[sha256] = _short(name, MAX_TEXT)

    def merge(self, others: Findings) -> None:
        """Add the findings of another member."""
        for problem in (*others.errors, *others.notes):
            self.add(problem)
        self.omitted += others.omitted
        self.runs += others.runs
        for sha256, name in others.platforms.items():
            self.note_platform(sha256, name)
        self.keys.merge(others.keys)
        self.timings.merge(others.timings)


@dataclass(frozen=True)
class Report:
    """The result of verifying a bundle: whether its numbers are consistent.

    identity, version: None if the file is no readable bundle. platforms: names by the hash of their facts. omitted: the
    number of problems that are not listed. signature: None if the bundle is unsigned, or its signature is invalid or
    could not be checked.
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
        """Whether there are no errors; notes are allowed."""
        return all(problem.severity == "note" for problem in self.problems)

    def as_json(self) -> dict[str, Any]:
        """The report in JSON types."""
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
    """Build the report, errors before notes."""
    problems = [*findings.errors, *findings.notes]
    platforms = dict(findings.platforms)
    return Report(identity, version, findings.runs, platforms, problems, findings.omitted, findings.signature)
