"""Verdicts as a table for a terminal."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence

from tmflow.base.text import several
from tmflow.claims.judge import KINDS, Judged
from tmflow.claims.verdict import Verdict
from tmflow.spec.trial import Evidence

WIDTH = 100  # characters of a line
VERDICTS: tuple[Verdict, ...] = ("reproduced", "contradicted", "inconclusive", "untested")
MARKS: dict[Verdict, str] = dict(zip(VERDICTS, "✓✗≈○", strict=True))


def as_text(judged: Sequence[Judged], heading: str, *, brief: bool = False) -> str:
    """The heading, a line for each verdict, why under it unless `brief`, and how many there are of each.

    Kinds of evidence that a claim does not take, or that no run is of, are named only, beside others.
    """
    taken = accepted(judged)
    kinds = [kind for kind in KINDS if any(verdict.evidence == kind for verdict in judged)]
    without = without_runs(taken) if len(kinds) > 1 else []
    # A key is a name to copy: it is never broken.
    lines = [
        *textwrap.wrap(heading, WIDTH, break_on_hyphens=False, break_long_words=False),
        "",
        f"{'verdict':<14}{'claim':<34}{'evidence':<11}source",
        "-" * WIDTH,
    ]
    for verdict in taken:
        if verdict.evidence not in without:
            lines += [_line(verdict)] if brief else [_line(verdict), *_why(verdict), ""]
    lines += [""] if brief else []
    lines += [_counts(judged, kind) for kind in kinds if kind not in without]
    if without:
        lines.append(f"No run is {' or '.join(without)}: `tmflow claims --evidence {without[0]}` says what it takes.")
    return "\n".join(lines)


def _counts(judged: Sequence[Judged], kind: Evidence) -> str:
    """How many claims have which verdict by that kind of evidence, and how many do not take it."""
    refused = sum(verdict.evidence == kind and kind not in verdict.claim.evidence for verdict in judged)
    told = [counted(accepted(judged), kind), f"not taken by {several(refused, 'claim')}" if refused else ""]
    return f"{kind}: {'; '.join(filter(None, told))}"


def counted(judged: Sequence[Judged], kind: Evidence) -> str:
    """How many claims have which verdict by that kind of evidence."""
    counts = Counter(verdict.finding.verdict for verdict in judged if verdict.evidence == kind)
    return ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])


def accepted(judged: Sequence[Judged]) -> list[Judged]:
    """The verdicts by evidence that may decide the claim; what any other kind says is always nothing, and the same."""
    return [verdict for verdict in judged if verdict.evidence in verdict.claim.evidence]


def without_runs(judged: Sequence[Judged]) -> list[Evidence]:
    """The kinds of evidence, but measured, by which no claim was looked at."""
    seen = {verdict.evidence for verdict in judged if verdict.machine is not None}
    return [k for k in KINDS if k != "measured" and k not in seen and any(verdict.evidence == k for verdict in judged)]


def machines(verdict: Judged) -> str | None:
    """Whose runs they are, and what those of other machines say."""
    if verdict.machine is None:
        return None
    others = "".join(f"; {its} on {machine}" for machine, its in verdict.elsewhere.items())
    return f"On {verdict.machine}{others}."


def _line(verdict: Judged) -> str:
    return f"{verdict.finding.verdict:<14}{verdict.id:<34}{verdict.evidence:<11}{verdict.claim.source}"


def _why(verdict: Judged) -> list[str]:
    lines = list[str]()
    explanation = verdict.claim.explanation if verdict.machine is not None else None
    for text in (verdict.claim.statement, verdict.finding.why, machines(verdict), explanation):
        if text:
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines
