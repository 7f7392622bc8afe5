"""What a check of a bundle found."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from tmflow.base.text import printable
from tmflow.bundle.keys import Keys
from tmflow.bundle.signature import Signature
from tmflow.bundle.timings import Timings

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
