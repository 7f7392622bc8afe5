"""Judges a claim by the runs of one machine: a verdict for each check, and the claim's verdict from these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypedDict

import pandas as pd

from tmflow.analysis.run_table import n_rounds
from tmflow.analysis.stats import MANY_ROUNDS, bounded
from tmflow.base.text import interval, several, span, workers
from tmflow.claims.checks import Check, Factors
from tmflow.claims.data import Candidates
from tmflow.claims.schema import Claim
from tmflow.claims.selection import LEAST_ROUNDS, Missing, Selected, ends, select
from tmflow.claims.statements import Statement, Unit, decide, rounds_needed

Verdict = Literal["reproduced", "contradicted", "inconclusive", "untested"]
# The claim takes the first verdict that any check has: one failing check suffices, and an untested one may fail.
STRONGEST: tuple[Verdict, ...] = ("contradicted", "untested", "inconclusive", "reproduced")


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


def judge_claim(
    claim: Claim,
    configurations: Mapping[str, Factors],
    varying: Mapping[str, Sequence[str]],
    among: Mapping[str, Candidates],
) -> Finding:
    """Judge a claim; `varying` and `among` are as for `select`, by experiment."""
    checked_runs = [
        _select_runs(check, configurations, varying[check.experiment], among[check.experiment])
        for check in claim.checks
    ]
    n_statements = sum(len(checked.statements) for checked in checked_runs if isinstance(checked, CheckedRuns))
    findings = [
        _judge_check(checked, claim.studied_to, n_statements)
        if isinstance(checked, CheckedRuns)
        else Finding("untested", f"{checked}.")
        for checked in checked_runs
    ]
    verdict = next(verdict for verdict in STRONGEST if any(finding.verdict == verdict for finding in findings))
    deciding = [finding for finding in findings if finding.verdict == verdict]
    open_rounds = [finding.more_rounds for finding in deciding]
    return Finding(
        verdict,
        " ".join(dict.fromkeys(finding.why for finding in deciding)),
        [number for finding in findings for number in finding.numbers],
        None if None in open_rounds else max(rounds for rounds in open_rounds if rounds is not None),
        [run for finding in findings for run in finding.runs],
        next((finding.decides for finding in deciding if finding.decides), None),
        findings,
    )


class CheckedRuns(NamedTuple):
    """A check with its selected runs and statements."""

    check: Check
    selected: Selected
    statements: list[Statement]


def _select_runs(
    check: Check, configurations: Mapping[str, Factors], varying: Sequence[str], among: Candidates
) -> CheckedRuns | Missing:
    try:
        selected = select(check, configurations, varying, among)
    except Missing as missing:
        return missing
    statements = check.predicate.statements(selected.curves)
    if not statements:
        return Missing(f"{check.place} has no run with a number of workers that it is about")
    return CheckedRuns(check, selected, statements)


def _judge_check(checked: CheckedRuns, studied_to: int, among: int) -> Finding:
    """Judge a check; `among` is the number of statements of the claim."""
    check, selected, statements = checked
    numbers = [number(statement, check.place) for statement in statements]
    nearest = number(min(statements, key=Statement.margin), check.place)
    threads = [*selected.curves[0].threads, *selected.agreeing]
    seen = _describe_runs(check, selected, studied_to)

    def finding(verdict: Verdict, why: str, more_rounds: int | None = None) -> Finding:
        return Finding(verdict, f"{seen}: {why}.", numbers, more_rounds, [selected.runs], nearest)

    fewest, _ = selected.rounds
    if fewest < LEAST_ROUNDS:
        missing = LEAST_ROUNDS - fewest
        why = f"a verdict needs {LEAST_ROUNDS} rounds, so at least {missing} more are needed"
        return finding("inconclusive", why, missing)
    verdict = decide(statements, among)
    against = [statement for statement in statements if statement.fails(among)]
    if max(threads) < check.predicate.reach and not (against and check.predicate.everywhere):
        sofar = {"reproduced": "it holds so far", "contradicted": "it does not hold so far"}.get(verdict, "it is open")
        if max(_emptied_threads(selected), default=0) >= check.predicate.reach:  # the machine has as many
            too_few, more = _too_few(selected)
            return finding("inconclusive", f"{sofar}, but {too_few}; {_nearest_sentences(statements)}", more)
        why = (
            f"{sofar}, but it is about more workers: a machine with {check.predicate.reach} hardware threads is needed"
        )
        return finding("untested", f"{why}; {_nearest_sentences(statements)}")
    if verdict == "contradicted":
        return finding("contradicted", _nearest_sentences(against))
    if verdict == "reproduced":
        doubt, more = _doubt(check, selected)
        but = f"it holds of those left, but {doubt}; " if doubt else ""
        return finding("inconclusive" if doubt else "reproduced", f"{but}{_nearest_sentences(statements)}", more)
    more, needed = _more(rounds_needed(statements, among), fewest)
    undecided = [statement for statement in statements if not statement.holds()]
    return finding("inconclusive", f"{_nearest_sentences(undecided)}; {needed}", more)


def _describe_runs(check: Check, selected: Selected, studied_to: int) -> str:
    """Describe the runs of a check and their irregularities."""
    fewest, most = selected.rounds
    rounds = several(fewest, "round") if fewest == most else f"{fewest} to {most} rounds"
    parts = [f"{rounds} at {workers(*selected.curves[0].threads)} (2017 study: up to {studied_to})"]
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


def _doubt(check: Check, selected: Selected) -> tuple[str | None, int | None]:
    """The reason to doubt a positive result because runs are missing, and the least number of rounds needed."""
    if len(selected.failed):
        return "what failed may differ", None
    if len(selected.diverged) and not check.predicate.diverged_agrees:
        return "what diverged may differ", None
    return _too_few(selected) if _emptied_threads(selected) else (None, None)


def _emptied_threads(selected: Selected) -> list[int]:
    """The numbers of workers left out with runs that ended without a result."""
    ended = {*selected.failed["threads"], *selected.diverged["threads"]}
    return [w for w in selected.left_out if w in ended]


def _too_few(selected: Selected) -> tuple[str, int | None]:
    """Say where too few runs are left, and the least number of rounds needed; None if none are left."""
    emptied = _emptied_threads(selected)
    none = [w for w in emptied if not selected.left_out[w]]
    if none:
        return f"none is left at {workers(*none)}, and more rounds would not help", None
    missing = LEAST_ROUNDS - min(selected.left_out[w] for w in emptied)
    return f"too few are left at {workers(*emptied)}, and at least {several(missing, 'more round')} needed", missing


def n_disturbed(runs: pd.DataFrame) -> int:
    """How many of the runs something else on their machine disturbed, as far as is known."""
    return int(runs["disturbed"].fillna(False).astype(bool).sum())


def n_resumed_rounds(runs: pd.DataFrame) -> int:
    """How many rounds of the runs were interrupted, so that a second process ran the rest of them."""
    return n_rounds(runs, runs["resumed"])


def _more(needed: int | None, rounds: int) -> tuple[int | None, str]:
    """The additional rounds that would decide, as a number and as text."""
    if needed is None:
        return None, f"{MANY_ROUNDS} rounds would not decide it, as estimated from these"
    more = max(needed - rounds, 1)
    return more, f"about {several(more, 'more round')} would decide"


def _nearest_sentences(statements: Sequence[Statement], most: int = 3) -> str:
    """Describe the statements nearest to failing, with their 95 % intervals."""
    nearest = sorted(statements, key=lambda statement: statement.margin())
    sentences = [_sentence(statement) for statement in nearest[:most]]
    left = len(statements) - len(sentences)
    return "; ".join(sentences) + (f"; and {left} more" if left else "")


def _sentence(statement: Statement) -> str:
    return f"{statement.what} {interval(*bounded(statement.interval()))}, claimed {span(*statement.range())}"


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
