"""Verdicts as text: a table for the terminal, a section of the report, and the evidence still needed."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from typing import get_args

from tmflow.analysis.stats import MANY_ROUNDS
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.text import interval, listed, several, span
from tmflow.claims.originals import load_originals
from tmflow.claims.origins import KINDS, NEEDS, Judged
from tmflow.claims.verdict import FAILS, HOLDS, UNTESTED, Finding, Verdict
from tmflow.platform.facts import is_local
from tmflow.spec.trial import Evidence
from tmflow.store import platform_queries
from tmflow.store.frames import Source, connected

WIDTH = 100  # characters of a line
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
MARKS: dict[Verdict, str] = dict(zip(VERDICTS, "✓✗≈○⊘", strict=True))


def heading(source: Source, platform: str | None, *, joined: bool = False) -> str:
    """Name the platform, the source of its runs, and the contributions that are left out or joined."""
    if platform is None:
        return "This database has no runs."
    with connected(source) as connection:
        platforms = platform_queries.platforms(connection, joined=joined)
        contributed = platform_queries.contributions_to(connection, platform)
    name = platforms.loc[platforms["platform"] == platform, "platform_name"].iloc[0]
    others = contributed[contributed["platform"] != platform]
    if joined:
        names = [f"{row.name} ({row.platform})" for row in others.itertuples(index=False)]
        joined_with = f", joined with {several(len(names), 'contribution')}: {listed(names)}" if names else ""
        return f"Platform {name} ({platform}): the runs that were ingested here{joined_with}."
    source_of_runs = "the runs that were ingested here" if is_local(platform) else "the runs of this contribution"
    sentence = f"Platform {name} ({platform}): {source_of_runs}."
    if len(others):
        keys = listed([str(key) for key in others["platform"]])
        sentence += f" Contributed to this platform and judged separately: {keys}."
    return sentence


def as_text(judged: Sequence[Judged], heading: str, *, brief: bool = False) -> str:
    """Format the heading, a line for each verdict with its reason unless `brief`, and the counts.

    Kinds of evidence that a claim does not accept, or that have no runs, are only named.
    """
    taken = accepted_verdicts(judged)
    kinds = [kind for kind in KINDS if any(verdict.evidence == kind for verdict in judged)]
    without = without_runs(taken) if len(kinds) > 1 else []
    # Keys are names to copy, so they are never wrapped.
    lines = [
        *textwrap.wrap(heading, WIDTH, break_on_hyphens=False, break_long_words=False),
        "",
        f"{'verdict':<20}{'claim':<40}{'evidence':<10}{'reach':>5}  source",
        "-" * WIDTH,
    ]
    for verdict in taken:
        if verdict.evidence not in without:
            lines += [_line(verdict)] if brief else [_line(verdict), *_why(verdict), ""]
    lines += [""] if brief else []
    lines += [_counts(judged, kind) for kind in kinds if kind not in without]
    if without:
        needed = f"`tmflow claims --evidence {without[0]}` says what is needed."
        lines.append(f"No eligible run is {' or '.join(without)}: {needed}")
    return "\n".join(lines)


def _counts(judged: Sequence[Judged], kind: Evidence) -> str:
    """Count the verdicts by a kind of evidence, and the claims that do not accept it."""
    refused = sum(verdict.evidence == kind and kind not in verdict.claim.evidence for verdict in judged)
    parts = [
        count_verdicts(accepted_verdicts(judged), kind),
        f"not accepted by {several(refused, 'claim')}" if refused else "",
    ]
    return f"{kind}: {'; '.join(filter(None, parts))}"


def count_verdicts(judged: Sequence[Judged], kind: Evidence) -> str:
    """Count the verdicts on the findings by a kind of evidence; claims that restate a finding do not count again."""
    counts = count_findings(verdict for verdict in judged if verdict.evidence == kind)
    return ", ".join(f"{counts[name]} {name}" for name in VERDICTS if counts[name])


def count_findings(judged: Iterable[Judged]) -> Counter[Verdict]:
    """The number of findings with each verdict: claims that restate another one are left out."""
    return Counter(verdict.finding.verdict for verdict in judged if verdict.claim.restates is None)


def accepted_verdicts(judged: Sequence[Judged]) -> list[Judged]:
    """The verdicts by evidence that the claim accepts; other kinds decide nothing."""
    return [verdict for verdict in judged if verdict.evidence in verdict.claim.evidence]


def without_runs(judged: Sequence[Judged]) -> list[Evidence]:
    """The kinds of evidence, except measured, without runs for any claim."""
    seen = {verdict.evidence for verdict in judged if verdict.machine is not None}
    return [k for k in KINDS if k != "measured" and k not in seen and any(verdict.evidence == k for verdict in judged)]


def machines_sentence(verdict: Judged) -> str | None:
    """Name the machine of the runs, and the verdicts of other machines."""
    if verdict.machine is None:
        return None
    others = "".join(f"; {other_verdict} on {machine}" for machine, other_verdict in verdict.elsewhere.items())
    return f"On {verdict.machine}{others}."


def _line(verdict: Judged) -> str:
    claim = verdict.claim
    return f"{verdict.finding.verdict:<20}{verdict.id:<40}{verdict.evidence:<10}{claim.reach:>5}  {claim.source}"


def _why(verdict: Judged) -> list[str]:
    lines = list[str]()
    explanation = verdict.claim.explanation if verdict.machine is not None else None
    for text in (verdict.claim.statement, verdict.finding.why, machines_sentence(verdict), explanation):
        if text:
            lines += textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="    ")
    return lines


INTRODUCTION = (
    "Each finding of the studies, and questions of ours, checked against the runs of one machine, separately for each "
    "kind of evidence. "
    "Holds here: every part was shown to hold on this machine. Does not hold here: a part was shown not to. "
    "Inconclusive: neither yet. Untested here: runs are missing, or the machine has too few hardware threads. Cannot "
    "be tested: no run of this software can decide it. The counts take each finding once. Intervals are "
    "95\N{NO-BREAK SPACE}% intervals over rounds; a verdict needs at least six rounds, and emulated runs decide "
    "nothing about time."
)


def section(judged: Sequence[Judged], heading: str) -> str:
    """Format an HTML section with the counts of verdicts and a table of reasons and numbers.

    The heading names the platform and the source. If all verdicts are from one machine, it is named once.
    """
    judged = accepted_verdicts(judged)
    without = without_runs(judged)
    with_runs = [verdict for verdict in judged if verdict.evidence not in without]
    counts = [
        f"{kind}: {count_verdicts(judged, kind)}." for kind in KINDS if any(v.evidence == kind for v in with_runs)
    ]
    if without:
        counts.append(f"No eligible run is {' or '.join(without)}.")
    by = {machine for machine in map(machines_sentence, with_runs) if machine}
    once = next(iter(by)) if len(by) == 1 else None
    return "\n".join(
        [
            '<section class="claims"><h2 id="claims">Which findings of the study hold</h2>',
            f"<p>The study: {escape(load_originals().study.citation())}.</p>",
            f"<ul>{''.join(f'<li>{escape(count)}</li>' for count in counts)}</ul>",
            f"<p>{escape(heading)}</p>",
            f"<p>{INTRODUCTION}</p>",
            *([f"<p>{escape(once)}</p>"] if once else []),
            '<div class="wide" tabindex="0" role="region" aria-label="Verdicts">',
            "<table><thead><tr><th>claim</th><th>evidence</th><th>verdict</th><th>why</th></tr></thead><tbody>",
            *(_row(verdict, tell_machine=once is None) for verdict in with_runs),
            "</tbody></table></div></section>",
        ]
    )


def _row(verdict: Judged, *, tell_machine: bool) -> str:
    claim, finding = verdict.claim, verdict.finding
    why = [
        finding.why,
        machines_sentence(verdict) if tell_machine else None,
        f"Background: {claim.explanation}" if claim.explanation and verdict.machine is not None else None,
    ]
    cells = [
        f"{escape(claim.statement)} <small>({escape(claim.source)}; {escape(verdict.id)})</small>",
        escape(verdict.evidence),
        f'<strong class="{css_class(finding.verdict)}">{escape(finding.verdict)}</strong>',
        "".join(f"<p>{escape(text)}</p>" for text in why if text) + _numbers(verdict),
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def css_class(verdict: Verdict) -> str:
    """The verdict as the name of a class of styles."""
    return verdict.replace(" ", "-")


def _numbers(verdict: Judged) -> str:
    rows = []
    for number in verdict.finding.numbers:
        estimate = interval(number["estimate"], number["low"], number["high"])
        cells = (number["experiment"], number["what"], estimate, span(number["claimed_low"], number["claimed_high"]))
        rows.append(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>")
    if not rows:
        return ""
    head = "<tr><th>experiment</th><th>quantity</th><th>estimate</th><th>claimed</th></tr>"
    return f"<details><summary>numbers</summary><table>{head}{''.join(rows)}</table></details>"


def needed_evidence(judged: Judged) -> str:
    """Say which evidence would decide the claim, in a sentence or two."""
    claim, finding = judged.claim, judged.finding
    if claim.reason is not None:
        return claim.reason
    if judged.evidence not in claim.evidence:
        return f"No {judged.evidence} run can decide it: the claim requires {listed(claim.evidence)} runs."
    if finding.verdict in (HOLDS, FAILS):
        return "It is decided on this machine; runs of another machine may differ."
    if judged.machine is None or finding.verdict == UNTESTED:
        machine = NEEDS.get(claim.hardware, "a machine")
        threads = several(claim.reach, "hardware thread")
        return (
            f"{judged.evidence.capitalize()} runs of {listed(claim.experiments())} at full scale with all compared "
            f"configurations, on {machine} with at least {threads}."
        )
    return _needed_rounds(finding)


def _needed_rounds(finding: Finding) -> str:
    """Say which rounds would decide an open claim on its machine."""
    if finding.more_rounds is None and any(check.ground == "open" for check in finding.checks):
        return f"{MANY_ROUNDS} rounds on this machine would not decide it, if means and spreads are those seen."
    if finding.more_rounds is None:
        return (
            "More rounds on this machine would not decide it: the runs that failed or diverged must succeed, here or "
            "on another machine."
        )
    rounds = several(finding.more_rounds, "more round")
    if min((number["rounds"] for number in finding.numbers), default=0) < LEAST_ROUNDS:
        return f"At least {rounds} on this machine: a verdict needs {LEAST_ROUNDS}."
    return f"About {rounds} on this machine: they decide in four of five cases if means and spreads are those seen."
