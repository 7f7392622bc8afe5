"""Verdicts as text: a table for a terminal, a section of the report, and why a claim is undecided."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from html import escape

from tmflow.base.text import interval, listed, several, span
from tmflow.claims.judge import KINDS, NEEDS, Judged
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


INTRODUCTION = (
    "Each finding of the study, held against the runs of one machine, by each kind of evidence apart. Reproduced: "
    "every part of it is shown to hold. Contradicted: some part is shown not to. Inconclusive: neither yet. "
    "Untested: a run or a machine is missing. The intervals are 95\N{NO-BREAK SPACE}% ones over the rounds; no "
    "verdict is drawn from fewer than six, and none about time from emulated runs."
)


def section(judged: Sequence[Judged], heading: str) -> str:
    """An HTML section: how many verdicts of each kind there are, and a table with the reasons and the numbers.

    The heading names the platform and the source. Where all verdicts are by one machine, it is named once.
    """
    judged = accepted(judged)
    without = without_runs(judged)
    told = [verdict for verdict in judged if verdict.evidence not in without]
    counts = [f"{kind}: {counted(judged, kind)}." for kind in KINDS if any(v.evidence == kind for v in told)]
    if without:
        counts.append(f"No run is {' or '.join(without)}.")
    by = {machine for machine in map(machines, told) if machine}
    once = next(iter(by)) if len(by) == 1 else None
    return "\n".join(
        [
            '<section class="claims"><h2 id="claims">What holds of the study</h2>',
            f"<ul>{''.join(f'<li>{escape(count)}</li>' for count in counts)}</ul>",
            f"<p>{escape(heading)}</p>",
            f"<p>{INTRODUCTION}</p>",
            *([f"<p>{escape(once)}</p>"] if once else []),
            '<div class="wide" tabindex="0" role="region" aria-label="Verdicts">',
            "<table><thead><tr><th>claim</th><th>evidence</th><th>verdict</th><th>why</th></tr></thead><tbody>",
            *(_row(verdict, tell_machine=once is None) for verdict in told),
            "</tbody></table></div></section>",
        ]
    )


def _row(verdict: Judged, *, tell_machine: bool) -> str:
    claim, finding = verdict.claim, verdict.finding
    why = [
        finding.why,
        machines(verdict) if tell_machine else None,
        f"Background: {claim.explanation}" if claim.explanation and verdict.machine is not None else None,
    ]
    cells = [
        f"{escape(claim.statement)} <small>({escape(claim.source)}; {escape(verdict.id)})</small>",
        escape(verdict.evidence),
        f'<strong class="{finding.verdict}">{escape(finding.verdict)}</strong>',
        "".join(f"<p>{escape(text)}</p>" for text in why if text) + _numbers(verdict),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _numbers(verdict: Judged) -> str:
    rows = []
    for its in verdict.finding.numbers:
        estimate = interval(its["estimate"], its["low"], its["high"])
        cells = (its["experiment"], its["what"], estimate, span(its["claimed_low"], its["claimed_high"]))
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    if not rows:
        return ""
    head = "<tr><th>runs of</th><th>what</th><th>estimate</th><th>claimed</th></tr>"
    return f"<details><summary>numbers</summary><table>{head}{''.join(rows)}</table></details>"


def would_decide(judged: Judged) -> str:
    """In a sentence or two."""
    claim, finding = judged.claim, judged.finding
    if judged.evidence not in claim.evidence:
        return f"No {judged.evidence} run can: the claim takes {listed(claim.evidence)} ones."
    if finding.verdict in ("reproduced", "contradicted"):
        return "It is decided on this machine; runs of another may still say otherwise."
    if judged.machine is None:
        where = f", on {NEEDS[claim.hardware]}" if claim.hardware in NEEDS else ""
        return f"{judged.evidence.capitalize()} runs of {listed(claim.experiments())} at full scale{where}."
    if finding.verdict == "untested":
        reach = max(check.predicate.reach for check in claim.checks)
        return f"Runs on a machine with at least {several(reach, 'hardware thread')}, of all that it compares."
    if finding.more_rounds is None:
        return (
            "More rounds on this machine would hardly: what failed or diverged there must run, or another machine must."
        )
    return f"About {several(finding.more_rounds, 'more round')} on this machine, if means and spreads stay as they are."
