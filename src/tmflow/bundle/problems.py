"""The problems that the check of a bundle finds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from tmflow.base.text import printable
from tmflow.bundle.keys import CommonFields, Keys
from tmflow.bundle.signature import Signature
from tmflow.bundle.timings import Timings

MAX_PROBLEMS = 100
MAX_PLATFORMS = 10
MAX_UID, MAX_FIELD, MAX_TEXT = 64, 100, 500  # characters kept of each


class Fault(NamedTuple):
    """A violation of a rule: the field as named in the run file, and a sentence."""

    field: str | None
    text: str


class Problem(NamedTuple):
    """A problem of a bundle and its place. A note informs, but does not reject the bundle."""

    text: str
    member: str | None = None
    line: int | None = None
    uid: str | None = None
    field: str | None = None
    severity: Literal["error", "note"] = "error"

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
class Report:
    """The result of verifying a bundle or one of its run files: whether its numbers are consistent.

    identity, version: None if no bundle can be read. platforms: the names of the runs' platforms, by the hash of their
    facts. errors, notes: the first `MAX_PROBLEMS` of each; omitted: the number of the others. signature: None if the
    bundle is unsigned, or its signature is invalid or could not be checked. keys: those that identify the runs.
    timings: the times of all runs.
    """

    identity: str | None = None
    version: int | None = None
    runs: int = 0
    platforms: dict[str, str] = field(default_factory=dict)
    errors: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    omitted: int = 0
    signature: Signature | None = None
    keys: Keys = field(default_factory=Keys, repr=False, compare=False)
    common_fields: CommonFields = field(default_factory=CommonFields, repr=False, compare=False)
    timings: Timings = field(default_factory=Timings, repr=False, compare=False)

    @property
    def ok(self) -> bool:
        """Whether there are no errors; notes are allowed."""
        return not self.errors

    @property
    def problems(self) -> list[Problem]:
        """The problems, errors before notes."""
        return [*self.errors, *self.notes]

    def as_json(self) -> dict[str, Any]:
        """The report in JSON types."""
        return {
            **{name: getattr(self, name) for name in ("ok", "identity", "version", "runs", "platforms")},
            "problems": [problem._asdict() for problem in self.problems],
            "omitted": self.omitted,
            "signature": self.signature and asdict(self.signature),
        }

    def add(self, problem: Problem) -> None:
        """Add a problem."""
        kept = self.errors if problem.severity == "error" else self.notes
        if len(kept) < MAX_PROBLEMS:
            kept.append(problem.printable())
        else:
            self.omitted += 1

    def add_platform(self, sha256: str, name: str) -> None:
        """Add a platform of the runs; there should be one, so only the first few are kept."""
        if len(self.platforms) < MAX_PLATFORMS:
            self.platforms[sha256] = _short(name, MAX_TEXT)

    def merge(self, other: Report) -> None:
        """Add the report of another run file."""
        for problem in other.problems:
            self.add(problem)
        self.omitted += other.omitted
        self.runs += other.runs
        for sha256, name in other.platforms.items():
            self.add_platform(sha256, name)
        self.keys.merge(other.keys)
        self.common_fields.merge(other.common_fields)
        self.timings.merge(other.timings)


def _short(text: str, at_most: int) -> str:
    return printable(text if len(text) <= at_most else f"{text[: at_most - 3]}...")
