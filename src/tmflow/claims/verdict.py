"""Judges a claim by the runs of one machine: a finding for each check, in numbers and words, and one for the claim."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

import pandas as pd

from tmflow.analysis.run_table import n_rounds
from tmflow.analysis.stats import MANY_ROUNDS, bounded
from tmflow.analysis.versions import LEAST_ROUNDS
from tmflow.base.text import from_to, interval, several, span, workers
from tmflow.claims.decision import Decided, Statement, Unit, decide, rounds_needed
from tmflow.claims.measures import Factors
from tmflow.claims.schema import Check, Claim
from tmflow.claims.selection import Candidates, Missing, Selected, ends, select

Verdict = Literal["holds here", "does not hold here", "inconclusive", "untested here", "cannot be tested"]
HOLDS: Verdict = "holds here"
FAILS: Verdict = "does not hold here"
UNTESTED: Verdict = "untested here"
# The claim takes the first verdict that any check has: one failing check suffices, and an untested one may fail.
STRONGEST: tuple[Verdict, ...] = (FAILS, UNTESTED, "inconclusive", HOLDS)


Ground = Literal["few rounds", "small machine", "decided", "failed", "diverged", "emptied", "open"]
"""The basis of a verdict, or what prevents one: runs that failed or diverged, numbers of workers where too few runs
are left ("emptied"), or intervals that are too wide ("open")."""


class Number(TypedDict):
    """A statement as JSON: the estimate with its 95 % interval, and the claimed range; None for no bound."""

    experiment: str
    what: str
    unit: Unit
    estimate: float
    low: float | None
    high: float | None
    rounds: int
    claimed_low: float | None
    claimed_high: float | None


@dataclass(frozen=True)
class Finding:
    """The result of a check, or of an entire claim, on one machine."""

    verdict: Verdict
    why: str
    numbers: list[Number] = field(default_factory=list)
    more_rounds: int | None = None
    """The number of additional rounds that would decide it at the present means and spreads."""
    runs: list[pd.DataFrame] = field(default_factory=list)
    decides: Number | None = None
    """The deciding number: the one nearest to failing, or the one that fails most clearly."""
    checks: list[Finding] = field(default_factory=list)
    """For a claim: the findings of its checks, in order."""
    ground: Ground | None = None
    """For a check with runs: the basis of its verdict, or what prevents one."""


def judge_claim(
    claim: Claim,
    configurations: Mapping[str, Factors],
    varying: Mapping[str, Sequence[str]],
    among: Mapping[str, Candidates],
) -> Finding:
    """Judge a claim; `varying` and `among` are as for `select`, by experiment."""
    checked: list[tuple[Check, Selected, list[Statement]] | Missing] = []
    for check in claim.checks:
        try:
            selected = select(check, configurations, varying[check.experiment], among[check.experiment])
            statements = check.predicate.statements(selected.curves)
            if not statements:
                raise Missing(f"{check.place} has no run with a number of workers that it is about")
            checked.append((check, selected, statements))
        except Missing as missing:
            checked.append(missing)
    n_statements = sum(len(item[2]) for item in checked if not isinstance(item, Missing))
    findings = [
        Finding(UNTESTED, f"{item}.") if isinstance(item, Missing) else _find(claim, *item, n_statements)
        for item in checked
    ]
    verdict = next(verdict for verdict in STRONGEST if any(finding.verdict == verdict for finding in findings))
    deciding = [finding for finding in findings if finding.verdict == verdict]
    return Finding(
        verdict,
        " ".join(dict.fromkeys(finding.why for finding in deciding)),
        [number for finding in findings for number in finding.numbers],
        _rounds_for_all(checked, deciding, findings, n_statements),
        [run for finding in findings for run in finding.runs],
        next((finding.decides for finding in deciding if finding.decides), None),
        findings,
    )


def _rounds_for_all(
    checked: Sequence[tuple[Check, Selected, list[Statement]] | Missing],
    deciding: Sequence[Finding],
    findings: Sequence[Finding],
    n_statements: int,
) -> int | None:
    """The number of further rounds that decide a claim, given the findings of its checks; None if unknown.

    Checks that are open are decided together: all of their statements must hold, or one must fail.
    """
    open_checks = [
        item
        for item, finding in zip(checked, findings, strict=True)
        if not isinstance(item, Missing) and finding.verdict == "inconclusive" and finding.ground == "open"
    ]
    if len(open_checks) < len(deciding) or len(open_checks) < 2:
        rounds = [finding.more_rounds for finding in deciding]
        return None if None in rounds else max(n for n in rounds if n is not None)
    needed = rounds_needed([statement for *_, statements in open_checks for statement in statements], n_statements)
    fewest = min(selected.rounds[0] for _, selected, _ in open_checks)
    return None if needed is None else max(needed - fewest, 1)


def _find(claim: Claim, check: Check, selected: Selected, statements: list[Statement], among: int) -> Finding:
    """The finding of a check of the claim; `among` is the number of statements of the claim."""
    decision = _decide_check(claim.reach, check, selected, statements, among)
    return Finding(
        decision.verdict,
        f"{_describe_runs(check, selected, claim)}: {_explain(claim.reach, selected, decision)}.",
        [number(statement, check.place) for statement in statements],
        decision.more_rounds,
        [selected.runs],
        number(min(statements, key=Statement.margin), check.place),
        ground=decision.ground,
    )


class _Decision(NamedTuple):
    """The decision on a check: the verdict, its ground, and the statements to quote as reasons."""

    verdict: Verdict
    ground: Ground
    reasons: list[Statement]
    more_rounds: int | None = None
    """The number of additional rounds that would decide it, at the present means and spreads."""
    so_far: Decided | None = None
    """The verdict at the numbers of workers that were reached, if the check requires more."""


def _decide_check(reach: int, check: Check, selected: Selected, statements: list[Statement], among: int) -> _Decision:
    """Decide a check; `reach` is the least number of workers that decides it, not oversubscribed."""
    fewest, _ = selected.rounds
    verdict = decide(statements, among)
    failing = [statement for statement in statements if statement.fails(among)]
    emptied = _emptied_threads(selected)
    if prevented := _prevented(reach, selected, statements, verdict):
        return prevented
    doubt: Ground | None = "emptied" if emptied else None  # missing runs might have changed a positive result
    if len(selected.failed):
        doubt = "failed"
    elif len(selected.diverged) and not check.predicate.diverged_agrees:
        doubt = "diverged"
    if verdict == HOLDS and doubt:
        missing = _missing_rounds(selected) if doubt == "emptied" else None
        return _Decision("inconclusive", doubt, statements, missing)
    if verdict != "inconclusive":
        return _Decision(verdict, "decided", failing or statements)
    needed = rounds_needed(statements, among)
    more = None if needed is None else max(needed - fewest, 1)
    return _Decision("inconclusive", "open", [statement for statement in statements if not statement.holds()], more)


def _prevented(reach: int, selected: Selected, statements: list[Statement], so_far: Decided) -> _Decision | None:
    """The decision on a check whose numbers of workers or rounds are too few to decide it; None if they suffice."""
    threads = [*selected.curves[0].threads, *selected.agreeing]
    emptied = _emptied_threads(selected)
    if max([*threads, *emptied]) < reach:
        # Rounds at a sufficient number of workers may be missing because the study has not ended.
        if begun := [n for w, n in selected.left_out.items() if w >= reach]:
            return _Decision("inconclusive", "few rounds", [], LEAST_ROUNDS - max(begun))
        return _Decision(UNTESTED, "small machine", statements, None, so_far)
    fewest, _ = selected.rounds
    if fewest < LEAST_ROUNDS:
        return _Decision("inconclusive", "few rounds", [], LEAST_ROUNDS - fewest)
    if max(threads) < reach:  # the machine has enough hardware threads
        return _Decision("inconclusive", "emptied", statements, _missing_rounds(selected), so_far)
    return None


def _missing_rounds(selected: Selected) -> int | None:
    """The rounds that numbers of workers with failed runs lack at least; None if one of them has none left."""
    left = min((selected.left_out[w] for w in _emptied_threads(selected)), default=0)
    return LEAST_ROUNDS - left if left else None


def _emptied_threads(selected: Selected) -> list[int]:
    """The numbers of workers that were left out and have runs without a result."""
    ended = {*selected.failed["threads"], *selected.diverged["threads"]}
    return [w for w in selected.left_out if w in ended]


SO_FAR: dict[Decided, str] = {
    "holds here": "it holds so far", "does not hold here": "it does not hold so far", "inconclusive": "it is open",
}  # fmt: skip


def _explain(reach: int, selected: Selected, decision: _Decision) -> str:
    """Give the reasons of a decision."""
    more, nearest = decision.more_rounds, _quote_nearest(decision.reasons)
    match decision.ground:
        case "few rounds":
            return f"a verdict needs {LEAST_ROUNDS} rounds, so at least {more} more are needed"
        case "decided":
            return nearest
        case "open":
            never = f"{MANY_ROUNDS} rounds would not decide it, as estimated from these"
            about = never if more is None else f"{several(more, 'more round')} would decide it in four of five cases"
            return f"{nearest}; {about}"
        case "small machine":
            but = f"it is about more workers: a machine with {several(reach, 'hardware thread')} is needed"
        case "emptied":
            but = _describe_gaps(selected, more)
        case "failed" | "diverged" as end:
            but = f"what {end} may differ"
    so_far = SO_FAR[decision.so_far] if decision.so_far else "it holds of those left"
    return f"{so_far}, but {but}; {nearest}"


def _describe_gaps(selected: Selected, more_rounds: int | None) -> str:
    """Say where too few runs are left, and the least number of rounds needed."""
    emptied = _emptied_threads(selected)
    if more_rounds is None:
        none = [w for w in emptied if not selected.left_out[w]]
        return f"none is left at {workers(*none)}, and more rounds would not help"
    return f"too few are left at {workers(*emptied)}, and at least {several(more_rounds, 'more round')} are needed"


def _describe_runs(check: Check, selected: Selected, claim: Claim) -> str:
    """Describe the runs of a check and their irregularities."""
    threads = workers(*selected.curves[0].threads)
    parts = [f"{from_to(*selected.rounds, 'round')} at {threads} ({studied(claim)})"]
    if disturbed := n_disturbed(selected.runs):
        parts.append(f"{disturbed} of {several(len(selected.runs), 'run')} disturbed")
    if resumed := n_resumed_rounds(selected.runs):
        parts.append(f"{several(resumed, 'round')} interrupted and resumed in another process")
    if selected.agreeing:
        parts.append(f"too many diverged at {workers(*selected.agreeing)} for a number")
    if selected.left_out:
        few = (f"{workers(w)}: {n} of {LEAST_ROUNDS} rounds" for w, n in selected.left_out.items())
        parts.append(f"without {'; '.join(few)}")
    tried = several(selected.tried, "run")
    if n := len(selected.diverged):
        so = ", which agrees" if check.predicate.diverged_agrees else ""
        parts.append(f"{n} of its {tried} diverged and {'has' if n == 1 else 'have'} no accuracy and no time{so}")
    if n := len(selected.failed):
        parts.append(f"{n} of its {tried} failed ({ends(selected.failed)})")
    return ", ".join([check.place, *parts])


def studied(claim: Claim) -> str:
    """Whose claim it is, and the most workers that were measured for it."""
    return claim.report if claim.studied_to is None else f"{claim.report}: up to {claim.studied_to}"


def n_disturbed(runs: pd.DataFrame) -> int:
    """Count the runs that are known to have been disturbed by other load on their machine."""
    return int(runs["disturbed"].fillna(False).astype(bool).sum())


def n_resumed_rounds(runs: pd.DataFrame) -> int:
    """Count the rounds that were interrupted and finished by another process."""
    return n_rounds(runs, runs["resumed"])


def _quote_nearest(statements: Sequence[Statement], most: int = 3) -> str:
    """Quote the statements nearest to failing, with their 95 % intervals."""
    nearest = sorted(statements, key=Statement.margin)
    quotes = [
        f"{one.what} {interval(*bounded(one.interval()))}, claimed {span(*one.range())}" for one in nearest[:most]
    ]
    return "; ".join([*quotes, *([f"and {len(statements) - most} more"] if len(statements) > most else [])])


def in_words(number: Number) -> str:
    """Describe a number with its interval and the claimed range."""
    estimate = interval(number["estimate"], number["low"], number["high"])
    return f"{number['what']}: {estimate}, claimed {span(number['claimed_low'], number['claimed_high'])}"


def number(statement: Statement, experiment: str) -> Number:
    """The numbers of a statement about an experiment."""
    estimate, low, high = bounded(statement.interval())
    claimed_low, claimed_high = statement.range()
    return {
        "experiment": experiment,
        "what": statement.what,
        "unit": statement.unit,
        "estimate": estimate,
        "low": low,
        "high": high,
        "rounds": len(statement.values),
        "claimed_low": claimed_low,
        "claimed_high": claimed_high,
    }
