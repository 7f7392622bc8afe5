"""Verdicts as a section of the report: HTML that stands by itself, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from tmflow.base.text import interval, span
from tmflow.claims.judge import KINDS, Judged
from tmflow.claims.render import accepted, counted, machines, without_runs

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
